//! Tells the build scripts of native programs where their link script is.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets this for build scripts");
    println!("cargo:rerun-if-changed=native.ld");
    println!("cargo:link_script={dir}/native.ld");
}
