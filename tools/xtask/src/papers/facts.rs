//! `guest/bench/papers.tsv`: what the papers print, what they say, and what Tessera aims at.

use crate::results::{Measurement, Question, System};
use anyhow::{bail, ensure, Context, Result};

/// A case of a figure, at a size if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub figure: String,
    pub case: String,
    pub size: Option<f64>,
}

/// What Linux was asked, and for how many things at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub benchmark: String,
    pub case: String,
    pub size: Option<f64>,
    pub each: f64,
}

/// Everything in the file.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Figure and title, in the order of the file.
    pub titles: Vec<(String, String)>,
    /// Numbers with their units.
    pub papers: Vec<(Key, f64, String)>,
    pub aims: Vec<(Key, f64)>,
    /// Cases that Linux in the same emulator was asked too, in `guest/bench/linux.json`.
    pub linux: Vec<(Key, Asked)>,
    /// Figure and text.
    pub says: Vec<(String, String)>,
    pub differs: Vec<(String, String)>,
}

impl Facts {
    pub fn parse(text: &str) -> Result<Facts> {
        let mut facts = Facts::default();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            facts.add(line).with_context(|| format!("line {}: {line:?}", number + 1))?;
        }
        Ok(facts)
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        let text = |figure: &str, text: &str| (figure.to_owned(), text.to_owned());
        match fields[..] {
            ["title", figure, words] => self.titles.push(text(figure, words)),
            ["says", figure, words] => self.says.push(text(figure, words)),
            ["differs", figure, words] => self.differs.push(text(figure, words)),
            ["paper", figure, case, size, value, unit] => {
                self.papers.push((key(figure, case, size)?, value.parse()?, unit.to_owned()));
            }
            ["aim", figure, case, size, value] => {
                self.aims.push((key(figure, case, size)?, value.parse()?));
            }
            ["linux", figure, case, size, benchmark, asked, at, each] => {
                let Key { figure: benchmark, case: asked, size: at } = key(benchmark, asked, at)?;
                let asked = Asked { benchmark, case: asked, size: at, each: each.parse()? };
                self.linux.push((key(figure, case, size)?, asked));
            }
            _ => bail!("unknown kind of line, or a wrong number of fields"),
        }
        Ok(())
    }

    /// The paper's number for a case, and its unit.
    pub fn paper(&self, key: &Key) -> Option<(f64, &str)> {
        let mut numbers = self.papers.iter();
        numbers.find_map(|(own, value, unit)| (own == key).then_some((*value, unit.as_str())))
    }

    /// Linux's number for a case, from what it was asked.
    pub fn linux(&self, key: &Key, measured: &[Measurement]) -> Option<f64> {
        let (_, asked) = self.linux.iter().find(|(own, _)| own == key)?;
        let answer = measured.iter().find(|m| {
            let question = &m.question;
            m.system == System::Linux
                && question.benchmark == asked.benchmark
                && question.case == asked.case
                && question.at.as_ref().map(|at| at.value) == asked.size
        });
        Some(answer?.median()? / asked.each)
    }

    /// The key of a question that is one of a figure's.
    pub fn key_of(&self, question: &Question) -> Key {
        Key {
            figure: question.benchmark.clone(),
            case: question.case.clone(),
            size: question.at.as_ref().map(|at| at.value),
        }
    }

    /// The paper's number for what a benchmark of the standard set asks, and its unit: of the case
    /// that Linux was asked with it.
    pub fn paper_of(&self, question: &Question) -> Option<(f64, &str)> {
        let own = self.key_of(question);
        let asked = self.linux.iter().filter(|(_, asked)| {
            asked.benchmark == own.figure && asked.case == own.case && asked.size == own.size
        });
        let alike = asked.filter_map(|(key, asked)| {
            let (value, unit) = self.paper(key)?;
            Some((value * asked.each, unit))
        });
        self.paper(&own).or_else(|| alike.into_iter().next())
    }

    /// The aim for a case.
    pub fn aim(&self, key: &Key) -> Option<f64> {
        self.aims.iter().find_map(|(own, value)| (own == key).then_some(*value))
    }
}

fn key(figure: &str, case: &str, size: &str) -> Result<Key> {
    ensure!(!case.is_empty(), "a case has a name");
    let size = match size {
        "-" => None,
        size => Some(size.parse()?),
    };
    Ok(Key { figure: figure.to_owned(), case: case.to_owned(), size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let facts = Facts::parse(include_str!("../../../../guest/bench/papers.tsv")).unwrap();
        let is_titled = |figure: &str| facts.titles.iter().any(|(own, _)| own == figure);
        for (key, ..) in &facts.papers {
            assert!(is_titled(&key.figure), "{key:?}");
        }
        for (key, _) in &facts.aims {
            assert!(is_titled(&key.figure), "{key:?}");
        }
        for (figure, _) in facts.says.iter().chain(&facts.differs) {
            assert!(is_titled(figure), "{figure}");
        }
        let linux =
            crate::results::read(std::path::Path::new("../../guest/bench/linux.json")).unwrap();
        for (key, asked) in &facts.linux {
            assert!(is_titled(&key.figure), "{key:?}");
            assert!(facts.linux(key, &linux).is_some(), "{asked:?}");
        }
        let key = key("G12-table-4.2", "map", "32").unwrap();
        assert_eq!(facts.paper(&key), Some((1339.0, "cycles")));
        assert_eq!(facts.aim(&key), Some(900.0));
    }

    #[test]
    fn wrong_lines() {
        for wrong in ["paper\ta\tb\t1\tx\tu", "aim\ta\tb\t1", "note\ta\tb", "aim\ta\t\t-\t1"] {
            assert!(Facts::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
