//! The direct map costs an addition: what the compiler makes of it.

use std::process::Command;

const USER: &str = r#"
#![no_std]
use ephemeral::{Direct, DirectMap, Ephemeral, Flags};

pub struct All;
impl DirectMap for All {
    type Page = u64;
    #[inline(always)]
    fn address(page: u64) -> usize { (page as usize).wrapping_add(0x1000) }
    #[inline(always)]
    fn are_neighbours(page: u64, next: u64) -> bool { page + 4096 == next }
}

const _: () = assert!(size_of::<Direct<All>>() == 0);
static ALL: Direct<All> = Direct::new();

#[no_mangle]
pub fn read_through_a_mapping(page: u64) -> usize {
    match ALL.alloc(page, Flags::PRIVATE) {
        Ok(buf) => buf.address(),
        Err(_) => 0,
    }
}
"#;

#[test]
fn direct_is_an_addition() {
    let folder = std::env::temp_dir().join(format!("ephemeral-assembly-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rustc = |arguments: &[&str]| {
        let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let mut command = Command::new(compiler);
        command.current_dir(&folder).args(["--edition=2021", "--crate-type=rlib", "-O"]);
        assert!(command.args(arguments).status().unwrap().success());
    };
    rustc(&["--crate-name=ephemeral", concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")]);
    std::fs::write(folder.join("user.rs"), USER).unwrap();
    rustc(&["--extern=ephemeral=libephemeral.rlib", "--emit=asm", "user.rs"]);
    let assembly = std::fs::read_to_string(folder.join("user.s")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let lines = assembly.lines().map(str::trim);
    let body = lines.skip_while(|line| !line.starts_with("read_through_a_mapping:")).skip(1);
    let instructions: Vec<&str> = body
        .take_while(|line| !line.starts_with(".Lfunc_end"))
        .filter(|line| !line.starts_with('.'))
        .collect();
    // One on any processor, and the return.
    assert_eq!(instructions.len(), 2, "{instructions:?}");
}
