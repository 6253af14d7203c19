//! `#[tessera::main]`.

use proc_macro::{TokenStream, TokenTree};

/// Makes a function the main function of a native program.
///
/// It takes nothing or `tessera::env::Args`, and returns nothing or anything that implements
/// `tessera::process::Termination`, such as `ExitCode` and `Result`. The program's entry point, heap
/// and panic handler come with it, so there is one in a program, beside `#![no_std]` and
/// `#![no_main]`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, function: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("`#[tessera::main]` takes no arguments");
    }
    let Some(name) = name_of(function.clone()) else {
        return error("`#[tessera::main]` goes in front of a function");
    };
    let entry: TokenStream = format!("::tessera::__program!({name});").parse().expect("is Rust");
    entry.into_iter().chain(function).collect()
}

/// The name behind the first `fn`.
fn name_of(function: TokenStream) -> Option<String> {
    let is_fn = |token: &TokenTree| token.to_string() == "fn";
    match function.into_iter().skip_while(|token| !is_fn(token)).nth(1)? {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    }
}

fn error(text: &str) -> TokenStream {
    format!("::core::compile_error!({text:?});").parse().expect("is Rust")
}
