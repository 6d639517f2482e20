//! Columns of tables and fields of records, declared where they are filled.
//!
//! [`table!`](crate::table) makes a struct of a table: a field for each column, with its unit. The name of a field is that
//! of the column, and what its comment says is the meaning of the column. A [`Table`] is made of such a struct only, so it
//! has the columns that are declared, in their order, and no others.
//! [`record!`](crate::record) does the same for records, which cross as JSON objects.
//!
//! ```
//! use syncline_core::table::Declared;
//!
//! syncline_core::table! {
//!     /// A row for every link.
//!     "links" => Links {
//!         /// Bytes that the link carried.
//!         bytes: Vec<i64> as Bytes,
//!     }
//! }
//! let table = Links { bytes: vec![1, 2] }.into_table();
//! assert_eq!((table.name, table.columns[0].0.unit.name()), ("links", "B"));
//! assert_eq!(Links::DECLARATION.columns[0].meaning, "Bytes that the link carried.");
//! ```

use serde::{Serialize, Serializer};

/// What the values of a column are measured in; of those that are not measured, what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Picoseconds of simulated time.
    Picoseconds,
    /// Bytes.
    Bytes,
    /// How many there are of something.
    Count,
    /// A part of a whole, from 0 to 1.
    Share,
    /// How many times as much as something else.
    Ratio,
    /// The number by which something is called, from 0.
    Index,
    /// A text.
    Text,
    /// Bytes of a format of their own.
    Data,
    /// Whether something is so.
    Truth,
    /// Fields of their own.
    Record,
}

impl Unit {
    /// The unit as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Picoseconds => "ps",
            Unit::Bytes => "B",
            Unit::Count => "count",
            Unit::Share => "share",
            Unit::Ratio => "ratio",
            Unit::Index => "index",
            Unit::Text => "text",
            Unit::Data => "data",
            Unit::Truth => "truth value",
            Unit::Record => "record",
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers: times in ps, bytes, counts.
    Int(Vec<i64>),
    /// The same where a row may have none: the time of what never happened.
    OptionalInt(Vec<Option<i64>>),
    /// Shares and rates.
    Float(Vec<f64>),
    /// Names.
    Text(Vec<String>),
    /// Files.
    Data(Vec<Vec<u8>>),
}

impl Values {
    /// Rows of the column.
    pub fn rows(&self) -> usize {
        match self {
            Values::Int(values) => values.len(),
            Values::OptionalInt(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::Data(values) => values.len(),
        }
    }
}

/// What the values of a column are stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stored {
    /// Integers.
    Int,
    /// Integers, of which rows may have none.
    OptionalInt,
    /// Floating point numbers.
    Float,
    /// Texts.
    Text,
    /// Bytes.
    Data,
}

/// A column as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name, which ends with its unit where that is a time or a size.
    pub name: &'static str,
    /// What its values are measured in.
    pub unit: Unit,
    /// What a value says, in a full phrase.
    pub meaning: &'static str,
    /// What its values are stored as.
    pub stored: Stored,
    /// Whether every table of this name has it.
    pub always: bool,
}

/// A table as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

/// A table: columns of equal length, made of a struct that declares them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: Vec<(&'static Column, Values)>,
}

impl Table {
    /// The table with the values of all columns of a declaration in order, `None` of a column that it lacks. For
    /// [`table!`](crate::table), which gives what it declares.
    ///
    /// # Panics
    /// When columns differ in length, or one is missing that every such table has.
    #[doc(hidden)]
    pub fn of_columns<const N: usize>(declaration: &'static Declaration, values: [Option<Values>; N]) -> Table {
        let name = declaration.name;
        assert_eq!(N, declaration.columns.len(), "columns of the table {name}");
        let present = |(column, values): (&'static Column, Option<Values>)| {
            assert!(values.is_some() || !column.always, "the table {name} always has a column {}", column.name);
            Some((column, values?))
        };
        let columns: Vec<(&'static Column, Values)> =
            declaration.columns.iter().zip(values).filter_map(present).collect();
        let rows = columns.first().map_or(0, |(_, values)| values.rows());
        for (column, values) in &columns {
            assert_eq!(values.rows(), rows, "rows of the column {} of the table {name}", column.name);
        }
        Table { name, columns }
    }

    /// The values of a column, if there is one of this name.
    pub fn values(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|(column, _)| column.name == name).map(|(_, values)| values)
    }
}

/// A struct with a field for each column of a table, made by [`table!`](crate::table).
pub trait Declared {
    /// What the table is.
    const DECLARATION: &'static Declaration;

    /// The table.
    fn into_table(self) -> Table;
}

/// What a column of a [`table!`](crate::table) may be made of.
pub trait Filled {
    /// What its values are stored as.
    const STORED: Stored;
    /// Whether every table has it.
    const ALWAYS: bool = true;

    /// The values, if the table has the column.
    fn values(self) -> Option<Values>;
}

macro_rules! filled {
    ($($type:ty => $stored:ident),+) => {
        $(impl Filled for Vec<$type> {
            const STORED: Stored = Stored::$stored;

            fn values(self) -> Option<Values> {
                Some(Values::$stored(self))
            }
        })+
    };
}

filled!(i64 => Int, Option<i64> => OptionalInt, f64 => Float, String => Text, Vec<u8> => Data);

impl<T> Filled for Option<Vec<T>>
where
    Vec<T>: Filled,
{
    const STORED: Stored = <Vec<T> as Filled>::STORED;
    const ALWAYS: bool = false;

    fn values(self) -> Option<Values> {
        self.and_then(Filled::values)
    }
}

/// A table: what a row is, its name, the struct that it is made of, and its columns with units ([`Unit`]). A column in an
/// `Option` may be missing.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $row:literal])+
        $title:literal => $name:ident { $($(#[doc = $meaning:literal])+ $column:ident: $type:ty as $unit:ident,)+ }
    ) => {
        $(#[doc = $row])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $column: $type,)+
        }

        impl $crate::table::Declared for $name {
            const DECLARATION: &'static $crate::table::Declaration = &$crate::table::Declaration {
                name: $title,
                meaning: concat!($($row),+).trim_ascii(),
                columns: &[$($crate::table::Column {
                    name: stringify!($column),
                    unit: $crate::table::Unit::$unit,
                    meaning: concat!($($meaning),+).trim_ascii(),
                    stored: <$type as $crate::table::Filled>::STORED,
                    always: <$type as $crate::table::Filled>::ALWAYS,
                }),+],
            };

            fn into_table(self) -> $crate::table::Table {
                let values = [$($crate::table::Filled::values(self.$column)),+];
                $crate::table::Table::of_columns(Self::DECLARATION, values)
            }
        }
    };
}

/// A field of a record as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its name, which ends with its unit where that is a time or a size.
    pub name: &'static str,
    /// What its value is measured in.
    pub unit: Unit,
    /// What its value says, in a full phrase.
    pub meaning: &'static str,
    /// Fields of its own, if it is a record or a list of them.
    pub fields: &'static [Field],
}

/// What a field of a [`record!`](crate::record) may hold.
pub trait Described {
    /// The fields of a record; of anything else none.
    const FIELDS: &'static [Field] = &[];
}

macro_rules! plain {
    ($($type:ty),+) => {
        $(impl Described for $type {})+
    };
}

plain!(bool, u32, u64, u128, f64, String, &'static str);

impl<T: Described> Described for Option<T> {
    const FIELDS: &'static [Field] = T::FIELDS;
}

impl<T: Described> Described for Vec<T> {
    const FIELDS: &'static [Field] = T::FIELDS;
}

/// A struct whose fields have units ([`Unit`]), and meanings: what the comments say.
#[macro_export]
macro_rules! record {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($(#[doc = $meaning:literal])+ pub $field:ident: $type:ty as $unit:ident,)+ }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        impl $crate::table::Described for $name {
            const FIELDS: &'static [$crate::table::Field] = &[$($crate::table::Field {
                name: stringify!($field),
                unit: $crate::table::Unit::$unit,
                meaning: concat!($($meaning),+).trim_ascii(),
                fields: <$type as $crate::table::Described>::FIELDS,
            }),+];
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::table! {
        /// A row for
        /// everything.
        "things" => Things {
            /// What it is called.
            name: Vec<String> as Text,
            /// How long it
            /// took.
            time_ps: Option<Vec<i64>> as Picoseconds,
            /// When it was seen.
            seen_ps: Vec<Option<i64>> as Picoseconds,
        }
    }

    crate::record! {
        /// Something.
        #[derive(Clone, Debug, Serialize)]
        pub struct Inner {
            /// How much it weighs.
            pub weight_bytes: u64 as Bytes,
        }
    }

    crate::record! {
        /// Several.
        #[derive(Clone, Debug, Serialize)]
        pub struct Outer {
            /// What there is.
            pub things: Vec<Inner> as Record,
            /// What it is called.
            pub name: Option<String> as Text,
        }
    }

    fn things(time_ps: Option<Vec<i64>>) -> Table {
        Things { name: vec!["a".into(), "b".into()], time_ps, seen_ps: vec![None, Some(3)] }.into_table()
    }

    #[test]
    fn a_table_has_the_columns_that_are_declared_in_their_order() {
        let table = things(Some(vec![1, 2]));
        let columns: Vec<Column> = table.columns.iter().map(|&(column, _)| *column).collect();
        assert_eq!((table.name, &columns[..]), ("things", Things::DECLARATION.columns));
        assert_eq!(table.values("time_ps"), Some(&Values::Int(vec![1, 2])));
        assert_eq!(table.values("nothing"), None);
    }

    #[test]
    fn comments_are_meanings() {
        let Declaration { meaning, columns, .. } = Things::DECLARATION;
        assert_eq!((*meaning, columns[1].meaning), ("A row for everything.", "How long it took."));
        assert_eq!((columns[1].unit.name(), columns[1].always, columns[0].always), ("ps", false, true));
        assert_eq!((columns[0].stored, columns[2].stored), (Stored::Text, Stored::OptionalInt));
    }

    #[test]
    fn a_table_may_lack_a_column_that_is_not_always_there() {
        let names: Vec<&str> = things(None).columns.iter().map(|(column, _)| column.name).collect();
        assert_eq!(names, ["name", "seen_ps"]);
    }

    #[test]
    #[should_panic(expected = "rows of the column time_ps of the table things")]
    fn columns_have_equal_lengths() {
        things(Some(vec![1]));
    }

    #[test]
    fn records_describe_those_that_they_hold() {
        let [things, name] = Outer::FIELDS else { panic!("two fields") };
        assert_eq!((things.name, things.unit, things.fields), ("things", Unit::Record, Inner::FIELDS));
        assert_eq!((name.meaning, name.fields.len()), ("What it is called.", 0));
    }
}
