//! PL/pgSQL: the body of a function or of `DO` as a tree (manual, "PL/pgSQL").
//!
//! Expressions and SQL statements inside stay text: they are analysed when they are first run, with the
//! variables that are then in sight.

use std::sync::Arc;

use sqlparser::ast::DataType;

mod parse;

pub use parse::parse;

/// SQL text of a body: a whole statement. An expression is kept as `SELECT expression`.
pub type Fragment = Arc<str>;

/// `[<<label>>] [DECLARE ..] BEGIN .. [EXCEPTION ..] END`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The label.
    pub label: Option<Arc<str>>,
    /// `DECLARE`.
    pub declarations: Vec<Declaration>,
    /// The statements.
    pub body: Vec<Step>,
    /// `EXCEPTION WHEN`; empty if there is none.
    pub handlers: Vec<Handler>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// Its name.
    pub name: Arc<str>,
    /// `CONSTANT`.
    pub constant: bool,
    /// `NOT NULL`.
    pub not_null: bool,
    /// Its type.
    pub ty: DeclaredAs,
    /// What it begins with.
    pub default: Option<Fragment>,
}

/// How the type of a variable is given.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredAs {
    /// By name. A name may turn out to be that of a table, which is the type of its rows.
    Type(Box<DataType>),
    /// `record`.
    Record,
    /// `table%ROWTYPE`.
    RowOf(Arc<str>),
    /// `table.column%TYPE`.
    ColumnOf(Arc<str>, Arc<str>),
    /// `variable%TYPE`.
    SameAs(Arc<str>),
    /// `ALIAS FOR`.
    Alias(Arc<str>),
}

/// `WHEN condition [OR ..] THEN ..`.
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    /// What it catches.
    pub conditions: Vec<Condition>,
    /// What it does.
    pub body: Vec<Step>,
}

/// What a handler catches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `OTHERS`: all but a cancelled query and a failed assertion.
    Others,
    /// An SQLSTATE; one that ends in `000` is a whole class.
    State(Arc<str>),
}

/// Something that can be assigned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A variable: its name, or `$1`.
    Variable(Arc<str>),
    /// `record.field`, or `label.variable`.
    Field(Arc<str>, Arc<str>),
}

/// `INTO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Into {
    /// `STRICT`.
    pub strict: bool,
    /// Where to.
    pub targets: Vec<Target>,
}

/// Where the rows of a loop or of `RETURN QUERY` come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// A query.
    Query(Fragment),
    /// `EXECUTE .. USING`.
    Execute(Fragment, Vec<Fragment>),
}

/// `RAISE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Raise {
    /// `DEBUG`, `LOG`, `INFO`, `NOTICE`, `WARNING` or `EXCEPTION`.
    pub level: &'static str,
    /// The format, and the condition if it was named instead.
    pub what: Raised,
    /// The values of the format's `%`.
    pub values: Vec<Fragment>,
    /// `USING`.
    pub options: Vec<(RaiseOption, Fragment)>,
}

/// What `RAISE` raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The error that the handler around it has caught.
    Again,
    /// A format.
    Message(Arc<str>),
    /// A condition, by its SQLSTATE, and the name that was written.
    Condition(Arc<str>, Arc<str>),
    /// Nothing but options.
    Options,
}

/// An option of `RAISE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOption {
    /// `MESSAGE`.
    Message,
    /// `DETAIL`.
    Detail,
    /// `HINT`.
    Hint,
    /// `ERRCODE`.
    Code,
    /// `CONSTRAINT`.
    Constraint,
    /// `COLUMN`, `TABLE`, `DATATYPE`, `SCHEMA`: not shown by the model.
    Object,
}

/// What `GET DIAGNOSTICS` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic {
    /// `ROW_COUNT`.
    RowCount,
    /// `RETURNED_SQLSTATE`.
    State,
    /// `MESSAGE_TEXT`.
    Message,
    /// `PG_EXCEPTION_DETAIL`.
    Detail,
    /// `CONSTRAINT_NAME`.
    Constraint,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `target := expression`.
    Assign(Target, Fragment),
    /// `PERFORM`.
    Perform(Fragment),
    /// An SQL statement.
    Sql(Fragment, Option<Into>),
    /// `EXECUTE`.
    Execute {
        /// The text of the command.
        command: Fragment,
        /// `INTO`.
        into: Option<Into>,
        /// `USING`.
        using: Vec<Fragment>,
    },
    /// `IF` and `CASE`; a simple `CASE` compares its operand in every condition.
    If {
        /// Conditions and what they lead to.
        branches: Vec<(Fragment, Vec<Step>)>,
        /// `ELSE`. Nothing of it in a `CASE` is 20000.
        otherwise: Option<Vec<Step>>,
        /// Written as `CASE`.
        case: bool,
    },
    /// `LOOP`, `WHILE`.
    Loop {
        /// The label.
        label: Option<Arc<str>>,
        /// `WHILE`.
        condition: Option<Fragment>,
        /// The statements.
        body: Vec<Step>,
    },
    /// `FOR i IN [REVERSE] a..b [BY c]`.
    Count {
        /// The label.
        label: Option<Arc<str>>,
        /// The variable, new for the loop.
        variable: Arc<str>,
        /// `REVERSE`.
        reverse: bool,
        /// The first value.
        from: Fragment,
        /// The last value.
        to: Fragment,
        /// The step.
        by: Option<Fragment>,
        /// The statements.
        body: Vec<Step>,
    },
    /// `FOR target IN query`.
    ForRows {
        /// The label.
        label: Option<Arc<str>>,
        /// Where each row goes.
        targets: Vec<Target>,
        /// The rows.
        rows: Rows,
        /// The statements.
        body: Vec<Step>,
    },
    /// `FOREACH target IN ARRAY expression`.
    ForEach {
        /// The label.
        label: Option<Arc<str>>,
        /// Where each element goes.
        target: Target,
        /// The array.
        array: Fragment,
        /// The statements.
        body: Vec<Step>,
    },
    /// `EXIT` (or `CONTINUE`) `[label] [WHEN ..]`.
    Leave {
        /// `CONTINUE`.
        again: bool,
        /// Which loop or block.
        label: Option<Arc<str>>,
        /// `WHEN`.
        when: Option<Fragment>,
    },
    /// `RETURN [expression]`; the expression, and the variable if it is nothing but one.
    Return(Option<Fragment>),
    /// `RETURN NEXT [expression]`.
    ReturnNext(Option<Fragment>),
    /// `RETURN QUERY`.
    ReturnQuery(Rows),
    /// `RAISE`.
    Raise(Box<Raise>),
    /// `ASSERT condition [, message]`.
    Assert(Fragment, Option<Fragment>),
    /// `GET [STACKED] DIAGNOSTICS`.
    Diagnose(Vec<(Target, Diagnostic)>),
    /// A block.
    Block(Box<Block>),
    /// `NULL`.
    Nothing,
}

/// The SQLSTATE of a condition's name (manual, appendix A), of those that code catches or raises.
pub fn state_of(name: &str) -> Option<&'static str> {
    CONDITIONS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, state)| *state)
}

const CONDITIONS: &[(&str, &str)] = &[
    ("successful_completion", "00000"),
    ("warning", "01000"),
    ("no_data", "02000"),
    ("connection_exception", "08000"),
    ("triggered_action_exception", "09000"),
    ("feature_not_supported", "0A000"),
    ("case_not_found", "20000"),
    ("cardinality_violation", "21000"),
    ("data_exception", "22000"),
    ("array_subscript_error", "2202E"),
    ("datetime_field_overflow", "22008"),
    ("division_by_zero", "22012"),
    ("invalid_datetime_format", "22007"),
    ("invalid_escape_sequence", "22025"),
    ("invalid_parameter_value", "22023"),
    ("invalid_regular_expression", "2201B"),
    ("null_value_not_allowed", "22004"),
    ("numeric_value_out_of_range", "22003"),
    ("string_data_right_truncation", "22001"),
    ("substring_error", "22011"),
    ("invalid_text_representation", "22P02"),
    ("integrity_constraint_violation", "23000"),
    ("restrict_violation", "23001"),
    ("not_null_violation", "23502"),
    ("foreign_key_violation", "23503"),
    ("unique_violation", "23505"),
    ("check_violation", "23514"),
    ("exclusion_violation", "23P01"),
    ("invalid_cursor_state", "24000"),
    ("invalid_transaction_state", "25000"),
    ("active_sql_transaction", "25001"),
    ("read_only_sql_transaction", "25006"),
    ("no_active_sql_transaction", "25P01"),
    ("in_failed_sql_transaction", "25P02"),
    ("triggered_data_change_violation", "27000"),
    ("invalid_authorization_specification", "28000"),
    ("dependent_objects_still_exist", "2BP01"),
    ("invalid_transaction_termination", "2D000"),
    ("sql_routine_exception", "2F000"),
    ("function_executed_no_return_statement", "2F005"),
    ("modifying_sql_data_not_permitted", "2F002"),
    ("external_routine_exception", "38000"),
    ("savepoint_exception", "3B000"),
    ("transaction_rollback", "40000"),
    ("serialization_failure", "40001"),
    ("transaction_integrity_constraint_violation", "40002"),
    ("statement_completion_unknown", "40003"),
    ("deadlock_detected", "40P01"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("syntax_error", "42601"),
    ("insufficient_privilege", "42501"),
    ("cannot_coerce", "42846"),
    ("grouping_error", "42803"),
    ("datatype_mismatch", "42804"),
    ("wrong_object_type", "42809"),
    ("undefined_column", "42703"),
    ("undefined_function", "42883"),
    ("undefined_table", "42P01"),
    ("undefined_parameter", "42P02"),
    ("undefined_object", "42704"),
    ("duplicate_column", "42701"),
    ("duplicate_function", "42723"),
    ("duplicate_table", "42P07"),
    ("duplicate_object", "42710"),
    ("ambiguous_column", "42702"),
    ("ambiguous_function", "42725"),
    ("invalid_column_reference", "42P10"),
    ("with_check_option_violation", "44000"),
    ("insufficient_resources", "53000"),
    ("too_many_connections", "53300"),
    ("program_limit_exceeded", "54000"),
    ("statement_too_complex", "54001"),
    ("object_not_in_prerequisite_state", "55000"),
    ("object_in_use", "55006"),
    ("lock_not_available", "55P03"),
    ("operator_intervention", "57000"),
    ("query_canceled", "57014"),
    ("admin_shutdown", "57P01"),
    ("system_error", "58000"),
    ("plpgsql_error", "P0000"),
    ("raise_exception", "P0001"),
    ("no_data_found", "P0002"),
    ("too_many_rows", "P0003"),
    ("assert_failure", "P0004"),
    ("internal_error", "XX000"),
];
