//! The same statements on a real database and on the simulator.

use libtest_mimic::Failed;
use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{DbError, ErrorClass, Reply};
use rowlock_scenarios::stage::{Answer, Stage};

/// A stage with a session.
pub(crate) struct Side {
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) session: SessionId,
}

impl Side {
    pub(crate) fn new(mut stage: Box<dyn Stage>, setup: &str) -> Result<Side, Failed> {
        stage.reset(&[setup.to_owned()])?;
        let session = stage.connect("a", None)?;
        Ok(Side { stage, session })
    }

    /// The answer as a line; `None` if it is refused.
    pub(crate) fn ask(&mut self, sql: &str) -> Result<Option<String>, Failed> {
        let statement = Statement {
            sql: sql.into(),
            args: Vec::new(),
            batch: false,
        };
        self.stage.send(self.session, &statement)?;
        let mut completions = self.stage.settle(None)?;
        if completions.len() != 1 {
            return Err(format!("`{sql}` has no answer").into());
        }
        match completions.remove(0).answer {
            Answer::Exec(answer) => Ok(line_of(answer)),
            Answer::Batch(_) => Err("a statement was answered as a script".into()),
        }
    }
}

/// An answer as a line; `None` if it is refused.
pub(crate) fn line_of(answer: Result<Reply, DbError>) -> Option<String> {
    match answer {
        Ok(reply) if reply.columns.is_empty() => Some(format!("{} rows", reply.affected)),
        Ok(reply) => {
            let types: Vec<_> = reply.columns.iter().map(|c| &*c.type_name).collect();
            let affected = match reply.affected {
                0 => String::new(),
                n => format!(" {n} changed"),
            };
            Some(format!("{types:?} {:?}{affected}", reply.rows))
        }
        Err(error) if error.class == ErrorClass::Unsupported => None,
        Err(error) => Some(format!("error {}", error.code)),
    }
}

/// The real database and the simulator.
pub(crate) struct Pair {
    pub(crate) real: Side,
    pub(crate) simulated: Side,
    pub(crate) refused: usize,
}

/// A statement that the two answer differently.
pub(crate) struct Difference {
    pub(crate) sql: String,
    pub(crate) real: String,
    pub(crate) simulated: String,
}

impl Pair {
    /// How the two answer a statement, if not alike.
    pub(crate) fn difference(&mut self, sql: &str) -> Result<Option<Difference>, Failed> {
        let Some(simulated) = self.simulated.ask(sql)? else {
            self.refused += 1;
            return Ok(None);
        };
        let real = self.real.ask(sql)?.unwrap_or_default();
        Ok((real != simulated).then(|| Difference {
            sql: sql.to_owned(),
            real,
            simulated,
        }))
    }
}
