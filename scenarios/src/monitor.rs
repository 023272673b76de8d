//! Properties over events: counts that join the explored state.
//!
//! A process tells a property of an event ([`Told`]); the monitor counts it. Counts stop one above
//! what the property can tell apart, so that loops converge.

use std::sync::Arc;

use rowlock_model::{Row, Value};

use crate::scenario::{Case, EventTest, Test, When};
use crate::script::Told;

/// Watches the events of one property.
#[derive(Clone, Debug)]
pub struct EventMonitor {
    name: Arc<str>,
    property: usize,
    when: When,
    test: EventTest,
    labels: Arc<[Arc<str>]>,
}

/// What an [`EventMonitor`] remembers. Equal for runs that the property cannot tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventState {
    /// Counts by value (null if the property does not say `per`), in a fixed order of the values.
    counts: Vec<(Value, u32)>,
    /// Processes that are inside, ascending; for properties with an end.
    inside: Vec<usize>,
}

/// What a monitor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Nothing special.
    Fine,
    /// What should happen at least once in the exploration has happened.
    Happened,
    /// The property does not hold; what was seen, in one line.
    Violated(String),
}

impl EventMonitor {
    /// The monitors of all properties of a case that are about events, in their order.
    pub fn of(case: &Case) -> Vec<EventMonitor> {
        let labels: Arc<[Arc<str>]> = case.processes.iter().map(|p| p.label.clone()).collect();
        let of_property = |(index, property): (usize, &crate::scenario::Property)| {
            let Test::Event(test) = &property.test else {
                return None;
            };
            Some(EventMonitor {
                name: property.name.clone(),
                property: index,
                when: property.when,
                test: test.clone(),
                labels: Arc::clone(&labels),
            })
        };
        let properties = case.properties.iter().enumerate();
        properties.filter_map(of_property).collect()
    }

    /// The name of the property.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Index of the property in its case.
    pub fn property(&self) -> usize {
        self.property
    }

    /// When the property is asked.
    pub fn when(&self) -> When {
        self.when
    }

    /// The query to run on the committed state before [`see`](Self::see), with [`Told::args`].
    pub fn query(&self) -> Option<&str> {
        self.test.query.as_ref().map(|query| &*query.sql)
    }

    /// Whether what it remembers and says is the same when processes of one group are exchanged. (A
    /// message may name one; whoever cares for that has looked at names.)
    pub fn is_symmetric(&self) -> bool {
        !self.test.has_end
    }

    /// What it remembers before the first event.
    pub fn start(&self) -> EventState {
        EventState::default()
    }

    /// Takes note of what process `process` (its index in the case) told this property. `rows` are
    /// those of the property's query, if it has one: no row, no event.
    pub fn see(
        &self,
        state: &mut EventState,
        process: usize,
        told: &Told,
        rows: Option<&[Row]>,
    ) -> Remark {
        debug_assert_eq!(told.property, self.property);
        if rows.is_some_and(<[Row]>::is_empty) {
            return Remark::Fine;
        }
        if told.ends {
            return self.gone(state, process);
        }
        if self.when == When::Sometimes {
            return Remark::Happened;
        }
        if self.test.has_end {
            return self.enter(state, process);
        }
        let value = told.per.clone().unwrap_or(Value::Null);
        let count = state.count(&value);
        if *count < self.enough() {
            *count += 1;
        }
        let (count, most) = (*count, self.test.at_most.unwrap_or(u32::MAX));
        if self.when != When::Always || count <= most {
            return Remark::Fine;
        }
        Remark::Violated(match rows.and_then(|rows| rows.first()) {
            Some(row) => format!("{}: the query returned {}", self.label(process), text(row)),
            None => self.too_many(&value, count, most),
        })
    }

    /// A process has ended or crashed: it is no longer inside of anything.
    pub fn gone(&self, state: &mut EventState, process: usize) -> Remark {
        state.inside.retain(|inside| *inside != process);
        Remark::Fine
    }

    /// The end of a complete run.
    pub fn at_end(&self, state: &EventState) -> Remark {
        if self.when != When::AtEnd {
            return Remark::Fine;
        }
        let most = self.test.at_most.unwrap_or(u32::MAX);
        let least = self.test.at_least.unwrap_or(0);
        if state.counts.is_empty() && least > 0 {
            return Remark::Violated(format!("never happened, at least {least} times expected"));
        }
        for (value, count) in &state.counts {
            if *count > most {
                return Remark::Violated(self.too_many(value, *count, most));
            }
            if *count < least {
                return Remark::Violated(format!(
                    "happened {}{}, at least {least} times expected",
                    times(*count),
                    of_value(value)
                ));
            }
        }
        Remark::Fine
    }

    fn enter(&self, state: &mut EventState, process: usize) -> Remark {
        if let Err(at) = state.inside.binary_search(&process) {
            state.inside.insert(at, process);
        }
        let most = self.test.at_most.unwrap_or(u32::MAX) as usize;
        if state.inside.len() <= most {
            return Remark::Fine;
        }
        let inside: Vec<&str> = state.inside.iter().map(|p| self.label(*p)).collect();
        Remark::Violated(format!(
            "{} are inside at once, at most {most} may be",
            inside.join(" and ")
        ))
    }

    /// The first count that makes no further difference.
    fn enough(&self) -> u32 {
        let most = self.test.at_most.map_or(0, |most| most + 1);
        most.max(self.test.at_least.unwrap_or(0))
    }

    fn too_many(&self, value: &Value, count: u32, most: u32) -> String {
        format!(
            "happened {}{}, at most {} expected",
            times(count),
            of_value(value),
            times(most)
        )
    }

    fn label(&self, process: usize) -> &str {
        self.labels.get(process).map_or("?", |label| label)
    }
}

impl EventState {
    /// The count of a value. Values stand in the order of their debug form: any fixed order serves.
    fn count(&mut self, value: &Value) -> &mut u32 {
        let key = |value: &Value| format!("{value:?}");
        let wanted = key(value);
        let found = self.counts.binary_search_by(|(v, _)| key(v).cmp(&wanted));
        let at = found.unwrap_or_else(|at| {
            self.counts.insert(at, (value.clone(), 0));
            at
        });
        &mut self.counts[at].1
    }
}

fn times(n: u32) -> String {
    match n {
        0 => "not at all".into(),
        1 => "once".into(),
        2 => "twice".into(),
        n => format!("{n} times"),
    }
}

fn of_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => format!(" for `{value}`"),
    }
}

fn text(row: &Row) -> String {
    let values: Vec<String> = row.iter().map(Value::to_string).collect();
    format!("({})", values.join(", "))
}
