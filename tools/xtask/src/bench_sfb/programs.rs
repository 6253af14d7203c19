//! SFB §6.3 and 6.4: Linux programs that have the kernel look at pages. All run in one boot of each machine.

use super::postmark::{self, Moved, CONFIGURATIONS};
use super::{gains, Lab, Point, Scale, MACHINES};
use crate::bench::counting;
use crate::image::Addition;
use crate::machine::MachineOptions;
use crate::map::Map;
use crate::program::Invocation;
use crate::progress::Progress;
use crate::results::line::{self, Defaults};
use crate::results::{Clock, Direction, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::{Extras, GuestRun};
use crate::testing::linux::compile;
use anyhow::{ensure, Context as _, Result};
use std::collections::HashMap;
use std::fs;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// What is counted of each program.
const COUNTED: [&str; 4] = ["hits", "misses", "local", "remote"];

/// How much each program does.
pub(super) struct Amounts {
    /// Bytes through the pipe.
    pipe: u64,
    /// MiB of the memory disks: half and twice of what the windows of a process show.
    disks: [u64; 2],
    /// PostMark does so many times less than in the paper.
    divided: u32,
}

impl Scale {
    /// The paper's pipe; disks whose ratio to the library's windows is that of the paper's to its cache; and a tenth of PostMark.
    pub(super) const fn amounts(self) -> Amounts {
        match self {
            Scale::Usual => Amounts { pipe: 50 << 20, disks: [16, 64], divided: 10 },
            Scale::Small => Amounts { pipe: 1 << 20, disks: [1, 4], divided: 1000 },
        }
    }
}

/// What a boot has measured: of each case.
pub(super) struct Ran {
    map: Map,
    cores: u32,
    provenance: Provenance,
    values: HashMap<String, f64>,
    moved: HashMap<String, Moved>,
}

pub(super) fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let additions = prepare(lab)?;
    let amounts = lab.scale.amounts();
    let md = Some(amounts.disks[1] << 20);
    let mut all = Vec::new();
    let progress = Progress::new("pipes, disks, PostMark", (MACHINES.len() * 3) as u64);
    for cores in MACHINES {
        let mut columns = Vec::new();
        for map in Map::ALL {
            progress.at(&format!("{} on {cores}", map.name()));
            columns.push(boot(lab, (map, cores, md), (&script(&amounts, map), &additions))?);
            progress.advance();
        }
        all.extend(figures(&columns, &amounts)?);
    }
    Ok(all)
}

/// The programs, and what they are told.
fn prepare(lab: &Lab) -> Result<Vec<Addition>> {
    let project = &lab.context.project;
    let folder = project.state().join(match lab.scale {
        Scale::Usual => "sfb",
        Scale::Small => "sfb.small",
    });
    fs::create_dir_all(&folder)?;
    let mut all = postmark::additions(project)?;
    setup::c_compiler()?;
    for name in ["bw_pipe", "around"] {
        let host = folder.join(name);
        compile(&project.path(&format!("guest/bench/sfb/{name}.c")), &host, "gcc")?;
        all.push(Addition { host, guest: format!("/root/{name}") });
    }
    for (n, whole) in CONFIGURATIONS.iter().enumerate() {
        let orders = whole.divided(lab.scale.amounts().divided);
        all.push(postmark::orders(&folder, &format!("postmark{n}"), orders)?);
    }
    Ok(all)
}

/// What programs find in their environment: where the kernel keeps no mapping, libraries keep none either.
pub(super) fn environment(map: Map) -> Option<String> {
    (map == Map::Uncached).then(|| "export TESSERA_EPHEMERAL=uncached".to_owned())
}

/// What the guest runs.
fn script(amounts: &Amounts, map: Map) -> String {
    let dd = "/bin/dd if=/dev/ram0 of=/dev/null bs=64k";
    let mut lines = vec!["cd /root".to_owned()];
    lines.extend(environment(map));
    lines.push(format!("./bw_pipe {}", amounts.pipe));
    // What it costs to start it is taken off.
    lines.push(format!("./around nothing {dd} count=0"));
    for (n, mib) in amounts.disks.iter().enumerate() {
        lines.push(format!("./around disk{n} {dd} count={}", mib * 16));
    }
    for n in 0..CONFIGURATIONS.len() {
        lines.push(format!("./around postmark{n} {LOADER} {} postmark{n}", postmark::PROGRAM));
    }
    lines.join(" && ")
}

/// A boot of a kernel, and what its programs have said. `md`: bytes of a memory disk.
pub(super) fn boot(
    lab: &Lab,
    (map, cores, md): (Map, u32, Option<u64>),
    (script, additions): (&str, &[Addition]),
) -> Result<Ran> {
    // Alone a core needs no turns.
    let machine = MachineOptions { cores, turns: cores > 1, md, ..counting() };
    let provenance = Provenance::emulated(&lab.context.project, &machine, false);
    let words = ["sh", "-c", script].map(String::from).to_vec();
    let run = GuestRun {
        test: format!("bench/sfb-{}-{cores}", map.name()),
        invocation: Invocation::new(words, &[])?,
        additions: additions.to_vec(),
        stdin: Vec::new(),
        machine,
        timeout: lab.timeout,
        command_line: String::new(),
    };
    let kernel = Some(lab.kernel(map)?);
    let observed = run.run_with(lab.context, Extras { kernel, ..Extras::default() })?;
    let output = String::from_utf8_lossy(&observed.stdout).into_owned();
    ensure!(observed.status(false)? == 0, "--map {} on {cores}: {output}", map.name());
    let (values, moved) = read(&output, &provenance)?;
    Ok(Ran { map, cores, provenance, values, moved })
}

/// What the programs said: times and counts, and of PostMark how much it moved.
fn read(
    output: &str,
    provenance: &Provenance,
) -> Result<(HashMap<String, f64>, HashMap<String, Moved>)> {
    let defaults = Defaults {
        benchmark: "sfb".into(),
        clock: Clock::Instructions,
        system: System::Tessera,
        provenance: provenance.clone(),
    };
    let (mut values, mut all_moved) = (HashMap::new(), HashMap::new());
    let mut moved = Moved::default();
    for line in output.lines() {
        let Some(rest) = line.strip_prefix("bench ") else {
            moved.note(line);
            continue;
        };
        let one = line::parse(&rest.split_whitespace().collect::<Vec<_>>(), &defaults)?;
        let value = one.median().with_context(|| format!("no value: {line}"))?;
        let case = one.question.case;
        if one.question.unit == "instructions" {
            all_moved.insert(case.clone(), std::mem::take(&mut moved));
        }
        values.insert(case, value);
    }
    Ok((values, all_moved))
}

impl Ran {
    fn value(&self, case: &str) -> Result<f64> {
        let value = self.values.get(case).copied();
        value.with_context(|| format!("{case} was not measured by --map {}", self.map.name()))
    }

    /// What a program cost, or counted, above another one.
    fn above(&self, case: &str, base: Option<&str>) -> Result<f64> {
        let base = base.map_or(Ok(0.0), |base| self.value(base))?;
        Ok((self.value(case)? - base).max(0.0))
    }
}

/// A program and its figures.
pub(super) struct Program<'a> {
    /// As its times are named.
    pub case: &'a str,
    /// What was measured to be taken off.
    pub base: Option<&'a str>,
    /// Of times, and of invalidations.
    pub figures: [&'a str; 2],
    /// Operations, of which each is a unit.
    pub each: f64,
    pub unit: &'a str,
}

fn figures(columns: &[Ran], amounts: &Amounts) -> Result<Vec<Measurement>> {
    const MB: f64 = 1e6;
    let mib = |mib: u64| (mib << 20) as f64 / MB;
    let per_mb = "instructions per MB";
    let mut programs = vec![Program {
        case: "bw pipe",
        base: None,
        figures: ["f2", "f3"],
        each: amounts.pipe as f64 / MB,
        unit: per_mb,
    }];
    const DISKS: [(&str, [&str; 2]); 2] = [("disk0", ["f4", "f5"]), ("disk1", ["f6", "f7"])];
    for (size, (case, figures)) in amounts.disks.into_iter().zip(DISKS) {
        let base = Some("nothing");
        programs.push(Program { case, base, figures, each: mib(size), unit: per_mb });
    }
    const CASES: [(&str, [&str; 2]); 3] = [
        ("postmark0", ["f8a", "f10a"]),
        ("postmark1", ["f8b", "f10b"]),
        ("postmark2", ["f8", "f10"]),
    ];
    for (whole, (case, figures)) in CONFIGURATIONS.iter().zip(CASES) {
        let orders = whole.divided(amounts.divided);
        let (each, unit) = (f64::from(orders.transactions), "instructions per transaction");
        programs.push(Program { case, base: None, figures, each, unit });
    }
    let mut all = Vec::new();
    for program in &programs {
        all.extend(figure(columns, program)?);
    }
    all.extend(throughput(columns)?);
    Ok(all)
}

/// Times, gains and counts of a program.
pub(super) fn figure(columns: &[Ran], program: &Program) -> Result<Vec<Measurement>> {
    let Program { case, base, figures: [times, counts], each, unit } = program;
    let (mut all, mut costs) = (Vec::new(), Vec::new());
    for ran in columns {
        let name = ran.map.name();
        let value = ran.above(case, *base)? / each;
        costs.push((ran.map, value));
        let (cores, better) = (ran.cores, Direction::Lower);
        let point = Point { figure: times, case: name.to_owned(), cores, value, unit, better };
        all.push(point.keep(&ran.provenance));
        for what in COUNTED {
            let of = |case: &str| format!("{case}, {what}");
            let value = ran.above(&of(case), base.map(of).as_deref())?;
            let unit = if matches!(what, "hits" | "misses") { "mappings" } else { "invalidations" };
            let case = format!("{name}, {what}");
            all.push(
                Point { figure: counts, case, cores, value, unit, better }.keep(&ran.provenance),
            );
        }
    }
    if let Some(ran) = columns.first() {
        let gains = gains(times, ran.cores, &costs);
        all.extend(gains.into_iter().map(|gain| gain.keep(&ran.provenance)));
    }
    Ok(all)
}

/// Figure 9: what the largest configuration of PostMark reads and writes in a thousand million instructions.
fn throughput(columns: &[Ran]) -> Result<Vec<Measurement>> {
    const CASE: &str = "postmark2";
    let (figure, unit, better) = ("f9", "MB in 10^9 instructions", Direction::Higher);
    let mut all = Vec::new();
    for ran in columns {
        let moved = ran.moved.get(CASE).copied().unwrap_or_default();
        for (what, amount) in [("read", moved.read), ("write", moved.written)] {
            let value = amount * 1e9 / ran.value(CASE)?;
            let (case, cores) = (format!("{what}, {}", ran.map.name()), ran.cores);
            all.push(Point { figure, case, cores, value, unit, better }.keep(&ran.provenance));
        }
    }
    Ok(all)
}
