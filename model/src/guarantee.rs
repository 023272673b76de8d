//! What can be asked of every program without describing it: guarantees that need no query.

use std::fmt;
use std::str::FromStr;

/// Something that every run has to keep, whatever the program is about.
///
/// The anomalies are those of Adya, Liskov and O'Neil, "Generalized isolation level definitions"
/// (ICDE 2000); each is a cycle of dependencies between committed transactions, or a read of what
/// should not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guarantee {
    /// Some serial order of the committed transactions gives the same answers and the same rows at
    /// the end.
    Serializable,
    /// No cycle of writes only.
    NoG0,
    /// Nobody who commits has read what a transaction wrote that was rolled back.
    NoG1a,
    /// Nobody who commits has read a version that its writer replaced itself.
    NoG1b,
    /// No cycle of writes and reads of what was written.
    NoG1c,
    /// No cycle with exactly one read of what another transaction then replaced (lost update, read
    /// skew).
    NoGSingle,
    /// No cycle with several such reads of rows (write skew).
    NoG2Item,
    /// No cycle with such reads, those of conditions included (phantoms).
    NoG2,
    /// Who is done holds no open transaction and no lock of its session.
    NoLeak,
    /// No statement is ended to break a deadlock.
    NoDeadlock,
    /// From every state there is a way to the end of all processes.
    CanFinish,
    /// Nobody is kept from committing for ever while others commit again and again.
    NoStarvation,
}

impl Guarantee {
    /// Every one.
    pub const ALL: [Guarantee; 12] = [
        Guarantee::Serializable,
        Guarantee::NoG0,
        Guarantee::NoG1a,
        Guarantee::NoG1b,
        Guarantee::NoG1c,
        Guarantee::NoGSingle,
        Guarantee::NoG2Item,
        Guarantee::NoG2,
        Guarantee::NoLeak,
        Guarantee::NoDeadlock,
        Guarantee::CanFinish,
        Guarantee::NoStarvation,
    ];

    /// The anomalies.
    pub const ANOMALIES: [Guarantee; 7] = [
        Guarantee::NoG0,
        Guarantee::NoG1a,
        Guarantee::NoG1b,
        Guarantee::NoG1c,
        Guarantee::NoGSingle,
        Guarantee::NoG2Item,
        Guarantee::NoG2,
    ];

    /// The name of the property.
    pub const fn name(self) -> &'static str {
        match self {
            Guarantee::Serializable => "serializable",
            Guarantee::NoG0 => "no G0",
            Guarantee::NoG1a => "no G1a",
            Guarantee::NoG1b => "no G1b",
            Guarantee::NoG1c => "no G1c",
            Guarantee::NoGSingle => "no G-single",
            Guarantee::NoG2Item => "no G2-item",
            Guarantee::NoG2 => "no G2",
            Guarantee::NoLeak => "no leak",
            Guarantee::NoDeadlock => "no deadlock",
            Guarantee::CanFinish => "can finish",
            Guarantee::NoStarvation => "no starvation",
        }
    }

    /// The guarantees that a list asks for: names with commas between them, `anomalies` for those
    /// of Adya, `all`. A hyphen may stand for the blank in a name.
    ///
    /// # Errors
    /// What is no such name.
    pub fn list(text: &str) -> Result<Vec<Guarantee>, String> {
        let mut found = Vec::new();
        for name in text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            match name {
                "all" => found.extend(Guarantee::ALL),
                "anomalies" => found.extend(Guarantee::ANOMALIES),
                name => found.push(name.parse()?),
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Guarantee {
    type Err = String;

    fn from_str(text: &str) -> Result<Guarantee, String> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(' ', "-");
        let wanted = plain(text);
        let found = Guarantee::ALL
            .into_iter()
            .find(|g| plain(g.name()) == wanted);
        found.ok_or_else(|| {
            let names = Guarantee::ALL.map(Guarantee::name).join(", ");
            format!(
                "`{text}` is no guarantee; there are: {names}, and the groups anomalies and all"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_groups() {
        assert_eq!("no-g2-item".parse(), Ok(Guarantee::NoG2Item));
        assert_eq!(
            Guarantee::list("no leak, serializable"),
            Ok(vec![Guarantee::Serializable, Guarantee::NoLeak])
        );
        assert_eq!(Guarantee::list("all").map(|all| all.len()), Ok(12));
        assert!(Guarantee::list("no g3").is_err());
    }
}
