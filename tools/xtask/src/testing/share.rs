//! `./x run --share`: a folder of this machine, changed from both sides.

use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use anyhow::{ensure, Context as _, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{chown, symlink, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Body = fn(&Context, &Path) -> Result<()>;

const CASES: [(&str, Body); 12] = [
    ("as-linux", as_linux),
    ("found", found),
    ("made", made),
    ("read-only", read_only),
    ("users", users),
    ("links-stay-inside", links_stay_inside),
    ("changed-outside", changed_outside),
    ("many", many),
    ("at-once", at_once),
    ("killed", killed),
    ("signals", signals),
    ("wrong-folders", wrong_folders),
];

/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(100);

pub fn cases() -> Vec<Case> {
    let single = |(name, body): (&'static str, Body)| {
        Case::single(format!("share/{name}"), move |context| {
            let folder = context.folder("share")?.join(name);
            // What an earlier run has left would count.
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(folder.join("shared"))?;
            body(context, &folder)
        })
    };
    CASES.into_iter().map(single).collect()
}

/// `./x run` in a folder, of which `shared` is shared.
fn x_run(context: &Context, folder: &Path, options: &[&str], program: &[&str]) -> Result<Command> {
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--mem", "256M", "--timeout=600"]).args(options);
    if !options.iter().any(|option| option.starts_with("--share")) {
        command.args(["--share", "shared"]);
    }
    command.arg("--").args(program);
    Ok(command)
}

/// Runs a script there, which must end well and complain of nothing; what it printed.
fn script(context: &Context, folder: &Path, options: &[&str], text: &str) -> Result<Vec<u8>> {
    let output = feed(&mut x_run(context, folder, options, &["sh", "-c", text])?, b"")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && errors.is_empty(), "{}: {errors}\n{printed}", output.status);
    Ok(output.stdout)
}

/// What there is below a folder: names, and of each its type, mode, and contents.
fn tree(folder: &Path) -> Result<BTreeMap<PathBuf, (u32, Vec<u8>)>> {
    let mut all = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let path = below.join(entry?.file_name());
            let here = folder.join(&path);
            let metadata = fs::symlink_metadata(&here)?;
            let contents = match metadata.file_type() {
                kind if kind.is_symlink() => fs::read_link(&here)?.into_os_string().into_vec(),
                kind if kind.is_file() => fs::read(&here)?,
                _ => Vec::new(),
            };
            if metadata.is_dir() {
                open.push(path.clone());
            }
            all.insert(path, (metadata.mode(), contents));
        }
    }
    Ok(all)
}

/// A program that shows what each call answers, here and there.
fn as_linux(context: &Context, folder: &Path) -> Result<()> {
    let program = folder.join("folder");
    compile(&context.project.path("guest/tests/share/folder.c"), &program, "gcc")?;
    let here = folder.join("here");
    fs::create_dir(&here)?;
    let linux = Command::new(&program).arg(&here).output()?;
    ensure!(linux.status.success(), "on this machine: {}", linux.status);
    let mut command = x_run(context, folder, &[], &["./folder", "/share"])?;
    let output = feed(&mut command, b"")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (expected, printed) = (text(&linux.stdout), text(&output.stdout));
    for (expected, printed) in expected.lines().zip(printed.lines()) {
        ensure!(expected == printed, "{printed:?}, on Linux {expected:?}");
        ensure!(!printed.ends_with(": NO"), "{printed}");
    }
    ensure!(expected.lines().count() > 150 && expected == printed, "{printed}");
    ensure!(output.status.success(), "{}", output.status);
    ensure!(tree(&here)? == tree(&folder.join("shared"))?, "they left different files");
    Ok(())
}

/// Everything that is there is found, with its attributes and contents, whatever its name.
fn found(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    let odd = OsString::from_vec(b"odd \xff\xfe\n'\"\\*".to_vec());
    let deep: PathBuf = (0..60).map(|number| format!("level-{number}")).collect();
    fs::create_dir_all(shared.join(&deep))?;
    fs::create_dir(shared.join(&odd))?;
    for (path, bytes) in
        [(deep.join("end"), 1), (PathBuf::from(&odd).join(&odd), 12_288), ("m".into(), 5_000_000)]
    {
        fs::write(shared.join(path), super::streams::noise(bytes))?;
    }
    fs::set_permissions(shared.join("m"), fs::Permissions::from_mode(0o4751))?;
    symlink("m", shared.join("link"))?;
    let far = fs::File::create(shared.join("far"))?;
    far.write_all_at(b"far", 9 << 30)?;
    let text = "cd /share; find . -print0 | sort -z; echo; sha256sum m; find . -name end -exec sha256sum {} +; stat -c '%a %s %u %g %h' m link far; \
        cd odd*; cat odd* | sha256sum; tail -c 3 ../far; cmp ../m ../link && echo same; df /share | tail -n 1 | wc -l";
    let printed = script(context, folder, &[], text)?;
    let mut names: Vec<Vec<u8>> = vec![b".".to_vec()];
    let listed = tree(&shared.join("level-0"))?;
    names.extend(listed.keys().map(|path| [b"./level-0/", path.as_os_str().as_bytes()].concat()));
    let top = fs::read_dir(&shared)?.map(|entry| Ok(entry?.file_name()));
    for name in top.collect::<Result<Vec<_>>>()? {
        names.push([b"./", name.as_bytes()].concat());
    }
    names.push([b"./", odd.as_bytes(), b"/", odd.as_bytes()].concat());
    names.sort();
    let mut expected: Vec<u8> = names.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect();
    let sum = |path: &Path| -> Result<String> {
        let output =
            Command::new("sha256sum").stdin(fs::File::open(shared.join(path))?).output()?;
        Ok(String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .next()
            .unwrap_or("")
            .to_owned())
    };
    let end = deep.join("end");
    let size = 9u64 << 30 | 3;
    expected.extend(
        format!(
            "\n{}  m\n{}  ./{}\n4751 5000000 0 0 1\n777 1 0 0 1\n644 {size} 0 0 1\n{}  -\nfarsame\n1\n",
            sum(Path::new("m"))?,
            sum(&end)?,
            end.display(),
            sum(&PathBuf::from(&odd).join(&odd))?
        )
        .bytes(),
    );
    ensure!(
        printed == expected,
        "{:?}\ninstead of {:?}",
        String::from_utf8_lossy(&printed),
        String::from_utf8_lossy(&expected)
    );
    Ok(())
}

/// What is made there is here, and belongs to who runs this.
fn made(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    fs::create_dir_all(shared.join("src/sub"))?;
    fs::write(shared.join("src/sub/file"), super::streams::noise(200_000))?;
    fs::write(shared.join("src/small"), "small\n")?;
    symlink("sub/file", shared.join("src/link"))?;
    fs::set_permissions(shared.join("src/small"), fs::Permissions::from_mode(0o604))?;
    let text = "cd /share; umask 022; cp -a src copy; tar cf all.tar src; mkdir out; tar xf all.tar -C out; \
        diff -r src out/src && diff -r src copy; touch -d @1234567890 stamped; mkdir -p new/a/b; echo text > new/a/b/c; \
        mv new/a moved; rmdir new; sed -i s/text/other/ moved/b/c; dd if=/dev/zero of=sparse bs=1 count=1 seek=5000000000 \
        2>/dev/null; cat src/sub/file | gzip > packed.gz; gunzip < packed.gz | cmp - src/sub/file; sync";
    script(context, folder, &[], text)?;
    for copy in ["copy", "out/src"] {
        ensure!(tree(&shared.join("src"))? == tree(&shared.join(copy))?, "{copy} differs");
    }
    ensure!(fs::read_to_string(shared.join("moved/b/c"))? == "other\n", "another text");
    ensure!(fs::metadata(shared.join("stamped"))?.mtime() == 1_234_567_890, "another time");
    let sparse = fs::metadata(shared.join("sparse"))?;
    ensure!(sparse.len() == 5_000_000_001 && sparse.blocks() < 1000, "{} blocks", sparse.blocks());
    let owner = rustix::process::geteuid().as_raw();
    for name in ["stamped", "moved/b/c", "copy/link", "all.tar"] {
        let metadata = fs::symlink_metadata(shared.join(name))?;
        ensure!(metadata.uid() == owner, "{name} belongs to {}", metadata.uid());
    }
    Ok(())
}

/// With `:ro` nothing changes, whatever is tried.
fn read_only(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    fs::create_dir(shared.join("d"))?;
    fs::write(shared.join("f"), "text\n")?;
    let before = tree(&shared)?;
    let text = "cd /share; cat f; for c in 'touch n' 'mkdir n' 'rm f' 'rmdir d' 'mv f g' 'ln f g' 'ln -s f g' 'chmod 600 f' \
        'touch -d @1 f' 'chown 0:0 f' 'truncate -s 0 f' 'mkfifo p' 'dd if=/dev/zero of=f count=1' 'mkdir d'; do \
        $c > /tmp/said 2>&1 && echo \"$c: done\"; grep -o 'Read-only.*' /tmp/said || echo \"$c: $(cat /tmp/said)\"; done; \
        grep -o 'share 9p ..' /proc/mounts";
    let printed = String::from_utf8(script(context, folder, &["--share=shared:ro"], text)?)?;
    let refused = "Read-only file system\n".repeat(13);
    let expected = format!(
        "text\n{refused}mkdir d: mkdir: can't create directory 'd': File exists\nshare 9p ro\n"
    );
    ensure!(printed == expected, "{printed}");
    ensure!(tree(&shared)? == before, "something has changed");
    Ok(())
}

/// Whoever is not the administrator has what modes allow to all; what such a user makes belongs to the same user here.
fn users(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    for (name, mode) in
        [("secret", 0o600), ("open", 0o644), ("own", 0o755), ("all", 0o777), ("tight", 0o700)]
    {
        let path = shared.join(name);
        match name {
            "own" | "all" | "tight" => fs::create_dir(&path)?,
            _ => fs::write(&path, "text\n")?,
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    // Only the administrator of this machine can give files away.
    let is_root = rustix::process::geteuid().is_root();
    fs::write(shared.join("foreign"), "")?;
    if is_root {
        chown(shared.join("foreign"), Some(1234), Some(1235))?;
    }
    let tries = "cd /share; id -u; cat secret; cat open; echo x > own/f; echo x > all/f; ls tight; rm open; chmod 777 secret; \
        chown 1 open; touch -d @1 open; stat -c %u all/f";
    let text = format!(
        "su -s /bin/sh nobody -c '{tries}' 2>&1; cat /share/secret; chown 1 /share/open 2>&1; \
        chown 0:0 /share/open; stat -c '%u %g' /share/foreign /share/own"
    );
    let printed = String::from_utf8(script(context, folder, &[], &text)?)?;
    let expected = "65534\ncat: can't open 'secret': Permission denied\ntext\n/bin/sh: can't create own/f: Permission denied\n\
        ls: can't open 'tight': Permission denied\nrm: can't remove 'open': Permission denied\n\
        chmod: secret: Operation not permitted\nchown: open: Operation not permitted\ntouch: open: Operation not permitted\n\
        0\ntext\nchown: /share/open: Invalid argument\n";
    let foreign = if is_root { "65534 65534" } else { "0 0" };
    let expected = format!("{expected}{foreign}\n0 0\n");
    let plain = printed.replace("sh: can't", "/bin/sh: can't").replace("/bin//bin/", "/bin/");
    ensure!(plain == expected, "{printed}");
    ensure!(fs::metadata(shared.join("secret"))?.mode() & 0o777 == 0o600, "the mode has changed");
    let owner = fs::metadata(shared.join("all/f"))?.uid();
    ensure!(owner == rustix::process::geteuid().as_raw(), "it belongs to {owner}");
    Ok(())
}

/// Links lead where they lead in the guest, and `..` leads to its own root: nothing else of this machine can be reached.
fn links_stay_inside(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    fs::write(folder.join("outside"), "a secret of the host\n")?;
    fs::create_dir(shared.join("d"))?;
    let outside = fs::canonicalize(folder.join("outside"))?;
    symlink(&outside, shared.join("absolute"))?;
    symlink("../outside", shared.join("relative"))?;
    symlink("../../../../../../../../../../etc/motd-of-guest", shared.join("d/up"))?;
    symlink("..", shared.join("d/parent"))?;
    let text = "echo guest > /etc/motd-of-guest; echo mine > /outside; cd /share/d; cat up; cat ../relative; \
        cat ../../outside; cat ../absolute 2>&1 | grep -o 'No such.*'; cd parent; pwd; cd /share/..; pwd; ls /share/../share/d/../..//outside; \
        echo changed > /share/relative; cat /outside; cd -P /share/d/parent/d/parent/..; pwd -P";
    let printed = String::from_utf8(script(context, folder, &[], text)?)?;
    let expected = "guest\nmine\nmine\nNo such file or directory\n/share/d/parent\n/\n/share/../share/d/../..//outside\nchanged\n/\n";
    ensure!(printed == expected, "{printed}");
    ensure!(
        fs::read_to_string(folder.join("outside"))? == "a secret of the host\n",
        "it was changed"
    );
    Ok(())
}

/// Waits until a file is there.
fn await_file(path: &Path) -> Result<()> {
    let began = Instant::now();
    while !path.exists() {
        ensure!(began.elapsed() < PATIENCE, "{} does not come", path.display());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What this side does to files that the other side has open or stands in.
fn changed_outside(context: &Context, folder: &Path) -> Result<()> {
    let shared = folder.join("shared");
    fs::create_dir_all(shared.join("away/below"))?;
    for name in ["grows", "gone", "cut"] {
        fs::write(shared.join(name), "0123456789")?;
    }
    let text = "cd /share/away/below; exec 3< /share/grows 4< /share/gone 5< /share/cut; head -c 4 <&3; head -c 4 <&5; \
        echo; echo > /share/ready; while [ ! -e /share/go ]; do sleep 0.05; done; cat <&3; echo; cat <&4; echo; cat <&5; echo; \
        cat /share/grows; echo; cat /share/gone; ls; cat ../x; cat /share/new; cd /share; echo back";
    let mut command = x_run(context, folder, &[], &["sh", "-c", &format!("{{ {text}; }} 2>&1")])?;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    await_file(&shared.join("ready"))?;
    let grown = fs::OpenOptions::new().append(true).open(shared.join("grows"))?;
    std::io::Write::write_all(&mut &grown, b"abc")?;
    fs::remove_file(shared.join("gone"))?;
    fs::OpenOptions::new().write(true).open(shared.join("cut"))?.set_len(2)?;
    fs::remove_dir_all(shared.join("away"))?;
    fs::write(shared.join("new"), "new\n")?;
    fs::write(shared.join("go"), "")?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    // Of the file without a name, the host still has what is open.
    let expected = "01230123\n456789abc\n0123456789\n\n0123456789abc\n";
    let rest = printed.strip_prefix(expected).with_context(|| format!("{printed}, {errors}"))?;
    let lines: Vec<&str> = rest.lines().collect();
    let missing = |line: &str| line.ends_with("No such file or directory");
    ensure!(lines.len() == 5 && lines[..3].iter().all(|line| missing(line)), "{lines:?}");
    ensure!(lines[3..] == ["new", "back"] && output.status.success(), "{lines:?}, {errors}");
    Ok(())
}

/// A directory of 10,000 entries is read, and emptied.
fn many(context: &Context, folder: &Path) -> Result<()> {
    let d = folder.join("shared/d");
    fs::create_dir(&d)?;
    for number in 0..10_000 {
        fs::write(d.join(format!("a file with a name of some length, {number}")), "")?;
    }
    let text = "cd /share/d; ls | wc -l; ls -l | wc -l; find . -type f -print0 | xargs -0 rm; cd ..; rmdir d; ls | wc -l; \
        mkdir e; cd e; for i in $(seq 1000); do echo $i > $i; done; cat * | wc -l";
    let began = Instant::now();
    let printed = String::from_utf8(script(context, folder, &[], text)?)?;
    context.note(&format!(
        "10,000 entries, twice listed, and removed: {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    ensure!(printed == "10000\n10001\n0\n1000\n", "{printed}");
    let left = tree(&folder.join("shared"))?;
    ensure!(left.len() == 1001, "{} files are left", left.len());
    Ok(())
}

/// Several processes at once, more than the device has places: each has its own, and others are served meanwhile.
fn at_once(context: &Context, folder: &Path) -> Result<()> {
    let text = "cd /share; for i in $(seq 20); do ( mkdir $i; cd $i; for j in $(seq 20); do echo $i $j > f; cat f >> all; \
        mv f g$j; ls > /dev/null; done; dd if=/dev/zero of=z bs=64k count=8 2>/dev/null; sha256sum < z >> ../sums ) & done; \
        ( for i in $(seq 200); do echo $i > /tmp/x; cat /tmp/x > /dev/null; done ) & wait; sort -u sums | wc -l; wc -l < sums; \
        for i in $(seq 20); do seq 20 | sed \"s/^/$i /\" | cmp - $i/all; cat $i/g20; done | wc -l";
    let printed = String::from_utf8(script(context, folder, &["--cores=4"], text)?)?;
    ensure!(printed == "1\n20\n20\n", "{printed}");
    let left = tree(&folder.join("shared"))?.len();
    ensure!(left == 20 * 23 + 1, "{left} files");
    Ok(())
}

/// Processes that are killed while they wait for this side take nothing with them.
fn killed(context: &Context, folder: &Path) -> Result<()> {
    fs::write(folder.join("shared/big"), super::streams::noise(3_000_000))?;
    let text = "cd /share; r=1; for i in $(seq 60); do ( while :; do cat big > copy$((i % 3)); find . > /dev/null; ls -l > list; done ) & p=$!; \
        usleep $((r % 60000)); r=$(((r * 7919 + i) % 1000003)); kill -9 $p; done; wait; sleep 1; cat /proc/tessera/unixd > /dev/null; \
        cmp big big && cp big again && cmp big again && rm -f copy0 copy1 copy2 list again && find . | sort";
    let printed =
        String::from_utf8_lossy(&script(context, folder, &["--cores=2"], text)?).into_owned();
    ensure!(printed == ".\n./big\n", "{printed}");
    ensure!(tree(&folder.join("shared"))?.len() == 1, "something is left");
    Ok(())
}

/// Signals with handlers end no call about a file: each byte comes.
fn signals(context: &Context, folder: &Path) -> Result<()> {
    let program = folder.join("signals");
    compile(&context.project.path("guest/tests/share/signals.c"), &program, "gcc")?;
    let mut command = x_run(context, folder, &[], &["./signals", "/share/f"])?;
    let output = feed(&mut command, b"")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.ends_with("signals came\n"),
        "{}: {said}",
        output.status
    );
    Ok(())
}

fn wrong_folders(context: &Context, folder: &Path) -> Result<()> {
    fs::write(folder.join("file"), "")?;
    for (option, words) in [
        ("nonesuch", "--share nonesuch: No such file or directory"),
        ("nonesuch:ro", "--share nonesuch: No such file or directory"),
        ("file", "--share file: this is not a folder"),
        ("", "the name of a folder is missing"),
    ] {
        let mut command = x_run(context, folder, &[&format!("--share={option}")], &["true"])?;
        let output = feed(&mut command, b"")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && said.contains(words), "{option}: {said}");
    }
    // A comma, a colon and a space are parts of names.
    let odd = folder.join("a, b:ro");
    fs::create_dir(&odd)?;
    let share = format!("--share={}", odd.display());
    script(context, folder, &[&share], "echo text > /share/f")?;
    ensure!(fs::read_to_string(odd.join("f"))? == "text\n", "another text");
    // Without the option there is nothing.
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--mem", "256M", "--", "ls", "/share"]);
    ensure!(!feed(&mut command, b"")?.status.success(), "there is a /share");
    Ok(())
}
