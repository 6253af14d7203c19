//! Hands the link script of native programs to the linker, for the bare-metal image only.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let script = std::env::var("DEP_TESSERA_NATIVE_LINK_SCRIPT").expect("libos names it");
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=--no-pie");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=0x1000");
    }
}
