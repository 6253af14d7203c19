//! `./x bench net`: what streams, datagrams and connections cost is the program `net` of the standard set; here is what needs servers, or several cores. `net/memcached`: how long
//! a memcached takes to answer whose cache is in plain memory, and one whose cache is a morsel of persistent memory (MOR figure 5.8). `net/listeners`: does a server scale
//! that has a listener on each core? `net/web`: nginx with 1,000 connections at once, from inside and from outside.
//! `net/loss`: streams over a wire that loses frames, beside Linux.

mod loss;
mod web;

use crate::bench_group::{Group, Lab};
use crate::bench_sfb;
use crate::compare::harness;
use crate::compare::table::Table;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::testing::{feed, this_tool};
use anyhow::{ensure, Result};
use std::fs;

/// `net` alone is the program of the standard set, and this.
pub const NET: Group = Group {
    name: "net",
    parts: &[
        ("net/memcached", memcached),
        ("net/listeners", listeners),
        ("net/web", web::measure),
        ("net/loss", loss::measure),
        ("net/sfb", bench_sfb::network::measure),
    ],
};

/// What memcached is told of its cache; the last one is beside the first.
const CACHES: [(&str, &str); 2] = [("memory", ""), ("persistent_memory", "-e /pmem/cache")];
/// Requests of each load.
const REQUESTS: [u32; 2] = [50_000, 2_000];
/// Cores of the machines with listeners; the first is what the others are compared with.
const MACHINES: [u32; 3] = [1, 2, 4];
/// How much longer than with plain memory an answer may take, in per cent: the paper's difference.
const MOST: f64 = 3.0;

fn memcached(lab: &Lab) -> Result<Vec<Measurement>> {
    let folder = lab.context.folder("memcached")?;
    let memory = folder.join("memory");
    if memory.exists() {
        fs::remove_file(&memory)?;
    }
    let requests = REQUESTS[usize::from(lab.small)];
    let one = |(number, (name, option)): (usize, (&str, &str))| {
        let port = 11_211 + number;
        format!(
            "memcached -u root -l 127.0.0.1 -p {port} -m 64 -t 1 {option} & \
             until nc -z 127.0.0.1 {port}; do sleep 0.1; done; \
             /root/getset {port} {name} {requests}; kill $!; wait $! || true; "
        )
    };
    let script: String = CACHES.into_iter().enumerate().map(one).collect();
    let program = harness(&lab.context.project, "getset")?;
    let mut command = this_tool(lab.context, &folder)?;
    command.args(["run", "--deb", "memcached,dash,coreutils,netcat-openbsd", "--mem", "512M"]);
    command.args(["--nvdimm", "memory:256M", "--icount", "--timeout=1200", "--file"]);
    command.arg(format!("{}:/root/getset", program.display()));
    command.args(["--", "/bin/sh", "-ec", &script]);
    let output = feed(&mut command, b"")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "memcached under a load: {said}{complaints}");
    let all = line::parse_output(&said, &defaults(lab))?;
    tell(&all)?;
    Ok(all)
}

fn defaults(lab: &Lab) -> Defaults {
    Defaults {
        benchmark: NET.name.to_owned(),
        clock: Clock::Instructions,
        system: System::Tessera,
        provenance: Provenance::host(&lab.context.project),
    }
}

/// Each core has a listener and a client: where nothing is shared, each client's requests take as long as on one core.
fn listeners(lab: &Lab) -> Result<Vec<Measurement>> {
    let folder = lab.context.folder("listeners")?;
    let program = harness(&lab.context.project, "listeners")?;
    let requests = if lab.small { "20" } else { "500" };
    let mut all = Vec::new();
    for cores in MACHINES {
        let cores = cores.to_string();
        let script = format!(
            "for kind in '' kept executed 'kept executed'; do /root/listeners {cores} {requests} $kind || exit 1; done"
        );
        let mut command = this_tool(lab.context, &folder)?;
        command.args(["run", "--icount", "--turns", "--cores", &cores, "--mem", "512M"]);
        command.args(["--timeout=1200", "--file"]);
        command.arg(format!("{}:/root/listeners", program.display()));
        command.args(["--", "sh", "-c", &script]);
        let output = feed(&mut command, b"")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "listeners on {cores} cores: {said}{complaints}");
        all.extend(line::parse_output(&said, &defaults(lab))?);
    }
    let head = ["a request, of each core's client", "cores", "time", "speed-up"];
    let mut table = Table::new(head.map(String::from).to_vec());
    for one in &all {
        let alone = all.iter().find(|it| it.question.case == one.question.case);
        let times = [alone.and_then(Measurement::median), one.median()];
        let ([Some(alone), Some(time)], Some(at)) = (times, &one.question.at) else { continue };
        table.row(vec![
            one.question.case.clone(),
            grouped(at.value),
            grouped(time),
            format!("{:.2}", at.value * alone / time),
        ]);
    }
    println!("{}", table.render());
    Ok(all)
}

/// Prints both beside each other, and compares.
fn tell(all: &[Measurement]) -> Result<()> {
    let mut table = Table::new(
        ["memcached, instructions", "memory", "persistent memory", "difference, %"]
            .map(String::from)
            .to_vec(),
    );
    let mut worst = 0f64;
    let [plain, other] = CACHES.map(|(name, _)| line::spaced(name));
    for first in all {
        let question = &first.question;
        let Some((what, rest)) = question.case.split_once(&format!(", {plain}")) else { continue };
        let case = format!("{what}, {other}{rest}");
        let second =
            all.iter().find(|it| it.question.case == case && it.question.at == question.at);
        let values = [Some(first), second].map(|it| it.and_then(Measurement::median));
        let [Some(before), Some(after)] = values else { continue };
        let difference = 100.0 * (after / before - 1.0);
        let at =
            question.at.as_ref().map_or(String::new(), |at| format!(", {} % of them", at.value));
        table.row(vec![
            format!("{what}{rest}{at}"),
            grouped(before),
            grouped(after),
            format!("{difference:+.1}"),
        ]);
        worst = worst.max(difference);
    }
    println!("{}", table.render());
    ensure!(
        worst <= MOST,
        "an answer takes {worst:.1} % longer out of persistent memory, not {MOST}"
    );
    Ok(())
}
