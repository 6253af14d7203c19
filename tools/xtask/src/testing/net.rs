//! `./x run --net`, `--publish`: connections between this machine and programs of the guest.

mod survives;

use super::crash::Running;
use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

type Body = fn(&Context, &Path) -> Result<()>;

const CASES: [(&str, Body); 14] = [
    ("outward", outward),
    ("given", given),
    ("six", six),
    ("datagrams", datagrams),
    ("groups", groups),
    ("published", published),
    ("many", many),
    ("end", end),
    ("fails", fails),
    ("survives", survives::twice),
    ("never", never),
    ("refused", refused),
    ("sizes", sizes),
    ("cache_killed", cache_killed),
];

/// Bytes that the network server does not need of its stack, of 128 KiB.
const STACK_LEFT: u64 = 32 * 1024;

/// How long something may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn cases() -> Vec<Case> {
    let single = |(name, body): (&'static str, Body)| {
        Case::single(format!("net/{name}"), move |context| {
            let folder = context.folder("net")?.join(name);
            fs::create_dir_all(&folder)?;
            body(context, &folder)
        })
    };
    CASES.into_iter().map(single).collect()
}

fn x_run(context: &Context, folder: &Path, options: &[&str], program: &[&str]) -> Result<Command> {
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--mem", "256M", "--timeout=600"]).args(options);
    command.arg("--").args(program);
    Ok(command)
}

/// A port of this machine that nobody has.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Serves `bytes` to whoever asks for a page, as often as that.
fn serve(bytes: Vec<u8>, times: usize) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || -> Result<()> {
        for _ in 0..times {
            let (mut stream, _) = listener.accept()?;
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                asked.push(byte[0]);
            }
            write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len())?;
            stream.write_all(&bytes)?;
        }
        Ok(())
    });
    Ok(port)
}

/// A program reaches this machine: with bytes in both directions.
fn outward(context: &Context, folder: &Path) -> Result<()> {
    let noise = super::streams::noise(1_500_000);
    fs::write(folder.join("noise"), &noise)?;
    let pages = serve(noise.clone(), 2)?;
    let sink = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = sink.local_addr()?.port();
    let received = thread::spawn(move || -> Result<Vec<u8>> {
        let (mut stream, _) = sink.accept()?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(all)
    });
    let nobody = free_port()?;
    let text = format!(
        "wget -q -O got http://10.0.2.2:{pages}/x && cmp got /root/noise && echo same; \
         nc -w 3 10.0.2.2 {nobody} 2>&1 | grep -o refused; nc 10.0.2.2 {to} < /root/noise; \
         cat /etc/resolv.conf; \
         wget -q -O - http://10.0.2.2:{pages}/x | wc -c; grep -c eth0 /proc/net/route"
    );
    let options = ["--net=user", "--file=noise"];
    let output = feed(&mut x_run(context, folder, &options, &["sh", "-c", &text])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "same\nrefused\nnameserver 10.0.2.3\n1500000\n2\n";
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(printed == expected, "{printed}\n{errors}");
    ensure!(received.join().expect("no panic")? == noise, "other bytes came here");
    Ok(())
}

/// The machine's place is another one than it was told at its start: it asks for it, and programs find the new one, who knows names there
/// too, unless a program has written that down itself.
fn given(context: &Context, folder: &Path) -> Result<()> {
    let page = serve(b"page".to_vec(), 1)?;
    let text = format!(
        "until ip addr show eth0 | grep -q 192.168.76.15/24; do usleep 20000; done; \
         until grep -q 76.3 /etc/resolv.conf; do usleep 20000; done; \
         cat /etc/resolv.conf; ip route | grep -o 'default via [0-9.]*'; ip addr | grep -c 10.0.2; \
         wget -q -O - http://192.168.76.2:{page}/x"
    );
    let options = ["--net=user,dhcp=192.168.76.0/24", "--verbose"];
    let output = feed(&mut x_run(context, folder, &options, &["sh", "-c", &text])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "nameserver 192.168.76.3\ndefault via 192.168.76.2\n0\npage";
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(printed == expected, "{printed}\n{log}");
    ensure!(log.contains("unixd: 192.168.76.15/24, given by 192.168.76.2"), "{log}");
    // The usual place is there from the start on.
    let text = "ip addr show eth0 | grep -c 10.0.2.15/24; cat /etc/resolv.conf";
    let options = ["--net=user", "--verbose"];
    let output = feed(&mut x_run(context, folder, &options, &["sh", "-c", text])?, b"")?;
    ensure!(output.stdout == b"1\nnameserver 10.0.2.3\n", "{output:?}");
    Ok(())
}

/// A group over the interface to the outside: as far as the emulator's network, which has no groups, lets it be seen.
fn groups(context: &Context, folder: &Path) -> Result<()> {
    compile(&context.project.path("guest/tests/net/group.c"), &folder.join("group"), "gcc")?;
    let output = feed(&mut x_run(context, folder, &["--net=user"], &["./group"])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "before: errno 11\n\
                    joined: [joined] from 10.0.2.15, interface 2, own 10.0.2.15\n\
                    not to the own machine: errno 11\n\
                    over lo: errno 11\n\
                    joined there: [inside] from 127.0.0.1, interface 1, own 127.0.0.1\n\
                    left: errno 11\n";
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(printed == expected, "{printed}\n{errors}");
    Ok(())
}

/// What comes along with a datagram of this machine's.
fn datagrams(context: &Context, folder: &Path) -> Result<()> {
    compile(&context.project.path("guest/tests/net/datagram.c"), &folder.join("datagram"), "gcc")?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let port = socket.local_addr()?.port().to_string();
    let answers = thread::spawn(move || -> Result<Vec<u8>> {
        let mut bytes = [0; 64];
        let (count, from) = socket.recv_from(&mut bytes)?;
        socket.send_to(&bytes[..count], from)?;
        Ok(bytes[..count].to_vec())
    });
    let program = ["./datagram", port.as_str()];
    let output = feed(&mut x_run(context, folder, &["--net=user"], &program)?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "hello from port as asked\ninterface 2 to 10.0.2.15\nhops\ntype 1, 17\n";
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(printed == expected, "{printed}\n{errors}");
    ensure!(answers.join().expect("no panic")? == b"hello", "other bytes came here");
    Ok(())
}

/// A guest that goes on until it is told to end.
struct Guest {
    child: Child,
    port: u16,
}

impl Guest {
    /// With the server that sends back what it is sent.
    fn start(context: &Context, folder: &Path, options: &[&str]) -> Result<Guest> {
        Guest::start_with(context, folder, options, &[])
    }

    /// The same, with arguments.
    fn start_with(
        context: &Context,
        folder: &Path,
        options: &[&str],
        arguments: &[&str],
    ) -> Result<Guest> {
        compile(&context.project.path("guest/tests/net/echo.c"), &folder.join("echo"), "gcc")?;
        let port = free_port()?;
        let publish = format!("--publish={port}:80");
        let options = [&[publish.as_str(), "--verbose"], options].concat();
        let program = [&["./echo"], arguments].concat();
        let mut command = x_run(context, folder, &options, &program)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let log = fs::File::create(folder.join("log"))?;
        let mut child = command.stderr(log).spawn()?;
        let mut first = [0; 10];
        child.stdout.as_mut().context("no output")?.read_exact(&mut first)?;
        ensure!(&first == b"listening\n", "it does not listen");
        Ok(Guest { child, port })
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Ends it; what it said, and the bytes that were free before and after.
    fn end(mut self, folder: &Path) -> Result<(String, u64, u64)> {
        self.connect()?.write_all(b"end")?;
        let mut said = String::new();
        self.child.stdout.take().context("no output")?.read_to_string(&mut said)?;
        ensure!(self.child.wait()?.success(), "it fails: {said}");
        let log = fs::read_to_string(folder.join("log"))?;
        let counter = |name: &str| -> Result<u64> {
            let found = log.lines().find_map(|line| line.split_once(name));
            Ok(found.context("no counter")?.1.trim().parse()?)
        };
        let unused = counter("netd_stack_unused")?;
        ensure!(unused >= STACK_LEFT, "of its stack netd has {unused} bytes left");
        Ok((said, counter("free_before")?, counter("free_after")?))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It has ended, or something went wrong.
        let _ = self.child.kill();
    }
}

/// Sends bytes and reads them again.
fn there_and_back(mut stream: TcpStream, bytes: &[u8]) -> Result<()> {
    let mut writer = stream.try_clone()?;
    let all = bytes.to_vec();
    let written = thread::spawn(move || -> Result<()> {
        writer.write_all(&all)?;
        Ok(writer.shutdown(Shutdown::Write)?)
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    written.join().expect("no panic")?;
    ensure!(back == bytes, "{} of {} bytes came back", back.len(), bytes.len());
    Ok(())
}

/// Memory is as before, to a few pages that servers keep.
fn ensure_nothing_lost(before: u64, after: u64) -> Result<()> {
    const SLACK: u64 = 8 * 4096;
    ensure!(after + SLACK >= before, "{} bytes are lost", before - after);
    Ok(())
}

/// A published port is reached, from one and from several at once.
fn published(context: &Context, folder: &Path) -> Result<()> {
    let guest = Guest::start(context, folder, &[])?;
    there_and_back(guest.connect()?, &super::streams::noise(600_000))?;
    thread::scope(|scope| {
        let one = |number: usize| {
            let stream = guest.connect();
            scope.spawn(move || there_and_back(stream?, &super::streams::noise(1000 * number)))
        };
        let all: Vec<_> = (1..=16).map(one).collect();
        all.into_iter().try_for_each(|one| one.join().expect("no panic"))
    })?;
    // Somebody who goes without a word, and somebody who never reads.
    drop(guest.connect()?);
    let mut mute = guest.connect()?;
    mute.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut sent = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) && sent < 200_000 {
        sent += mute.write(&[1; 1000]).unwrap_or(0);
    }
    drop(mute);
    let (said, before, after) = guest.end(folder)?;
    ensure!(said.starts_with("20 came"), "{said}");
    ensure_nothing_lost(before, after)
}

/// Many connections at once, none of which is lost: the emulator lets two wait, so they are made slowly.
fn many(context: &Context, folder: &Path) -> Result<()> {
    const COUNT: usize = 24;
    let guest = Guest::start(context, folder, &[])?;
    let mut all = Vec::new();
    for _ in 0..COUNT {
        all.push(guest.connect()?);
    }
    for (number, stream) in all.iter_mut().enumerate() {
        stream.write_all(&[number as u8; 100])?;
    }
    for (number, stream) in all.iter_mut().enumerate() {
        let mut back = [0; 100];
        stream.read_exact(&mut back).with_context(|| format!("connection {number}"))?;
        ensure!(back == [number as u8; 100], "connection {number}: another one's bytes");
    }
    drop(all);
    let (said, before, after) = guest.end(folder)?;
    let expected =
        format!("{} came, {COUNT} at once, {} bytes, 0 resets\n", COUNT + 1, COUNT * 100);
    let also = expected.replace(&format!("{COUNT} at once"), &format!("{} at once", COUNT + 1));
    ensure!(said == expected || said == also, "{said}");
    ensure_nothing_lost(before, after)
}

/// The server of the network fails under a load: its connections end, those inside of the machine go on, whoever listens is reached
/// again, and its memory is back.
fn fails(context: &Context, folder: &Path) -> Result<()> {
    // After so many hundred frames.
    let guest = Guest::start_with(context, folder, &["--net=user,fails=3"], &["80", "inside"])?;
    let mut open: Vec<TcpStream> = (0..4).map(|_| guest.connect()).collect::<Result<_>>()?;
    for stream in &mut open {
        stream.write_all(&[7; 50])?;
        stream.read_exact(&mut [0; 50])?;
    }
    let began = Instant::now();
    let mut loaded = 0;
    while began.elapsed() < PATIENCE {
        match there_and_back(guest.connect()?, &super::streams::noise(300_000)) {
            Ok(()) => loaded += 1,
            Err(_) => break,
        }
    }
    ensure!(began.elapsed() < PATIENCE, "it does not fail: {loaded} times 300,000 bytes");
    // A new server answers, and it does not know the old one's connections.
    let mut again = there_and_back(guest.connect()?, &super::streams::noise(5000));
    while again.is_err() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        again = there_and_back(guest.connect()?, &super::streams::noise(5000));
    }
    again.context("nobody answers any more")?;
    there_and_back(guest.connect()?, &super::streams::noise(600_000))?;
    for (number, stream) in open.iter_mut().enumerate() {
        // Whoever says something to one of them is told that it has ended.
        let told = stream.write_all(b"still there?").and_then(|()| stream.read(&mut [0; 50]));
        ensure!(told.as_ref().map_or(true, |&count| count == 0), "{number}: {told:?}");
    }
    let log = fs::read_to_string(folder.join("log"))?;
    ensure!(log.contains("netd: exception"), "it did not fail: {log}");
    let (said, before, after) = guest.end(folder)?;
    let (first, second) = said.split_once('\n').context("one line")?;
    let resets = first.split(' ').rev().nth(1).and_then(|count| count.parse::<u32>().ok());
    // The four, and the one that was busy.
    ensure!(resets.is_some_and(|resets| resets >= 4), "{said}");
    ensure!(second == "inside: whole\n", "{said}");
    ensure_nothing_lost(before, after)
}

/// Each server of the network fails before it has said anything: another one is started a bounded number of times, the log says what there is not, and so do
/// programs that want it; inside of the machine all is as ever.
fn never(context: &Context, folder: &Path) -> Result<()> {
    let text = "nc -w 5 10.0.2.2 80 2>&1 | grep -o unreachable; ip addr | grep -c eth0; \
                (echo inside | nc -l -p 80 > got) & until nc 127.0.0.1 80 < /dev/null; do :; done; wait; echo end";
    let options = ["--net=user,fails=start", "--verbose"];
    let output = feed(&mut x_run(context, folder, &options, &["sh", "-c", text])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(printed == "unreachable\n0\ninside\nend\n", "{printed}\n{log}");
    let count = log.matches("netd: exception").count();
    ensure!((2..=10).contains(&count), "{count} servers: {log}");
    ensure!(log.contains("init: the network is gone: its server fails at its start"), "{log}");
    Ok(())
}

/// What a program has sent arrives, although the machine ends with it.
fn end(context: &Context, folder: &Path) -> Result<()> {
    let sink = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = sink.local_addr()?.port();
    let received = thread::spawn(move || -> Result<usize> {
        let (mut stream, _) = sink.accept()?;
        // It is in no hurry.
        thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(all.len())
    });
    let text = format!("exec 3<>/dev/null; head -c 60000 /dev/zero | nc -w 1 10.0.2.2 {to}");
    let output = feed(&mut x_run(context, folder, &["--net=user"], &["sh", "-c", &text])?, b"")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count = received.join().expect("no panic")?;
    ensure!(count == 60_000, "{count} bytes came");
    Ok(())
}

/// Without a network nothing is reached; a port that is taken is said to be; options that do not fit.
fn refused(context: &Context, folder: &Path) -> Result<()> {
    let text =
        "nc -w 5 10.0.2.2 80 2>&1 | grep -o unreachable; test -e /etc/resolv.conf || echo none";
    let output = feed(&mut x_run(context, folder, &[], &["sh", "-c", text])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(printed == "unreachable\nnone\n", "{printed}");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port().to_string();
    for (options, said) in [
        (vec![format!("--publish={port}:80")], port.as_str()),
        (vec!["--net=none".into(), "--publish=81:80".into()], "--net none"),
        (vec!["--net=tap:nosuchtap,10.9.9.2/24".into()], "no such interface"),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let output = feed(&mut x_run(context, folder, &options, &["true"])?, b"")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !errors.contains(said) {
            bail!("{options:?}: {}: {errors}", output.status);
        }
    }
    Ok(())
}

/// The size of packets inside of the machine can be set, that of the wire cannot; an interface that is up can be set up, and `lo` down.
fn sizes(context: &Context, folder: &Path) -> Result<()> {
    let text = "ip link set lo mtu 16384 && ip link show lo | grep -o 'mtu [0-9]*'; cat /sys/class/net/lo/mtu; \
                ip link set lo mtu 67 2> /dev/null || echo too few; ip link set lo mtu 65537 2> /dev/null || echo too many; \
                ip link set eth0 mtu 1400 2> /dev/null || echo not that one; ip link set lo up && echo up; \
                ip link set lo down && echo down; ip link set lo up && cat /sys/class/net/lo/mtu";
    let output = feed(&mut x_run(context, folder, &["--net=user"], &["sh", "-c", text])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "mtu 16384\n16384\ntoo few\ntoo many\nnot that one\nup\ndown\n16384\n";
    ensure!(printed == expected, "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// IPv6: a program has an address there, and reaches this machine and is answered. (The emulator's own network leads nothing of IPv6 inward.)
fn six(context: &Context, folder: &Path) -> Result<()> {
    compile(&context.project.path("guest/tests/net/six.c"), &folder.join("six"), "gcc")?;
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))?;
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0))?;
    let ports =
        [listener.local_addr()?.port(), socket.local_addr()?.port()].map(|it| it.to_string());
    thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(stream.write_all(&all)?)
    });
    thread::spawn(move || -> Result<()> {
        let mut bytes = [0; 100];
        loop {
            let (count, from) = socket.recv_from(&mut bytes)?;
            socket.send_to(&bytes[..count], from)?;
        }
    });
    let program = ["./six", &ports[0], &ports[1]];
    let output = feed(&mut x_run(context, folder, &["--net=user"], &program)?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "address 1\nconnect 0\nfrom fec0::\nback 100000, same 1\ndatagram 8 from 1\n\
        echo 16, type 129, echo\nto many 101\n";
    ensure!(printed == expected, "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// memcached's cache after a kill of the emulator. By itself it begins anew: it takes its own word on what is in the cache away as it starts. With that word
/// kept aside, a failure-atomic file is as it was at the last stop in order. (Another one has what was stored since, which that word does not say: memcached
/// may not even answer then.)
fn cache_killed(context: &Context, folder: &Path) -> Result<()> {
    let script = context.project.path("guest/tests/net/memcached.sh");
    fs::copy(script, folder.join("memcached.sh"))?;
    let image = folder.join("memory");
    if image.exists() {
        fs::remove_file(&image)?;
    }
    // Runs a boot until it ends, or until it says a word, with which it is killed. Answers what it has said.
    let boot = |number: &str, until: Option<&str>| -> Result<Vec<String>> {
        let mut command = this_tool(context, folder)?;
        command.args(["run", "--deb", "memcached,bash,coreutils,perl-base", "--mem", "512M"]);
        command.args(["--timeout=600", "--nvdimm", "memory:256M"]);
        command.args(["--file", "memcached.sh:/root/memcached.sh", "--"]);
        command.args(["/bin/bash", "/root/memcached.sh", number]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut machine = Running(child);
        let mut said = Vec::new();
        for line in machine.lines()? {
            said.push(line?);
            let word = said.last().and_then(|line| line.split(' ').next());
            if until.is_some() && word == until {
                machine.kill()?;
                return Ok(said);
            }
        }
        let (status, complaints) = machine.ended()?;
        ensure!(until.is_none() && status.success(), "{number}: {status}: {said:?} {complaints}");
        Ok(said)
    };
    let after = |said: &[String], word: &str| -> Result<String> {
        let line = said.iter().find_map(|line| line.strip_prefix(word));
        Ok(line.with_context(|| format!("{word}: {said:?}"))?.trim().to_owned())
    };
    let filled = after(&boot("1", None)?, "filled")?;
    let changed = boot("2", Some("changed"))?;
    ensure!(after(&changed, "begun")? == filled, "it has not started warm: {changed:?}");
    ensure!(after(&changed, "changed")? != filled, "nothing has changed");
    let last = boot("3", None)?;
    ensure!(!last.iter().any(|line| line == "it has its word"), "{last:?}");
    ensure!(after(&last, "anew")?.is_empty(), "it has not begun anew: {last:?}");
    ensure!(after(&last, "left")? == filled, "not {filled}: {last:?}");
    Ok(())
}
