//! The compiled kernel of the history pipeline: raw oplog entries to columns of rows.
//!
//! It knows bytes, and Python knows meaning: what a kind of entry becomes is decided by the stages, once for each
//! kind, and given to the kernel as templates. The law: rows that the kernel makes are those of the reference,
//! and an entry that the reference refuses is left to it. `lake/bulk/compiled.py` uses it.

#![forbid(unsafe_code)]

mod bson;
mod columns;
mod describe;
mod dictionary;
mod ends;
mod envelope;
mod json;
mod keys;
mod kinds;
mod rows;
mod shown;
mod split;
mod targets;
mod texts;

use columns::{COLUMNS, Columns, Finished, Merge, TooLarge};
use ends::{Ends, SessionToken};
use kinds::{Kinds, Layout, Template};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use rows::{Operation, Row, Scan};
use targets::Target;
use texts::{Field, Uneven};

/// Counts changes of what Python and the kernel expect of each other.
const INTERFACE: u32 = 3;

/// The rows of the next slice may be much smaller.
const MOST_RESERVED: usize = 16 << 20;

/// Fixed pieces, and a letter for each hole between them.
type Pieces = (Vec<PyBackedBytes>, PyBackedBytes);
/// Token, event and `entry_rest`; operation, database, collection and UUID; the shard.
type GivenLayout = (Pieces, Pieces, Option<Pieces>, [Option<String>; 4], String);
/// A kind without a layout: its number, whether its events show a session, its operation; and of its first row
/// head, `o`, key, cluster time and wall time.
type Unknown<'py> =
    (usize, bool, u8, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64, i64);
/// A transaction: cluster time, wall time, session, number, how many operations it has, their namespaces.
type End<'py> = (u64, Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64, usize, Vec<u32>);
/// Which rows are not null, offsets and data.
type GivenColumn = (Option<PyBackedBytes>, Option<PyBackedBytes>, PyBackedBytes);
/// Offsets and data of the different values of a column.
type MadeValues<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// The same as buffers; the data may be longer than what is used of it. If there are values, it is numbers of them.
type MadeColumn<'py> =
    (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, usize, Option<MadeValues<'py>>);

#[pyclass]
#[derive(Default)]
struct Kernel {
    kinds: Kinds,
    ends: Ends,
    scan: Scan,
    memories: Vec<PyBackedBytes>,
    columns: Columns,
    /// How many bytes for a row the columns had last.
    widths: [usize; COLUMNS.len()],
}

#[pymethods]
impl Kernel {
    #[new]
    fn new() -> Self {
        Kernel::default()
    }

    /// How much it knows.
    fn __len__(&self) -> usize {
        self.kinds.all.len().max(self.ends.len())
    }

    /// Forget all rows; kinds are remembered.
    fn clear(&mut self) {
        self.scan.clear(&mut self.kinds);
        self.memories.clear();
    }

    /// Read the entries of a shard, the first of which begins at ``start``. `settle` has to follow.
    ///
    /// Returns the kinds that have no layout yet.
    fn scan<'py>(
        &mut self,
        py: Python<'py>,
        shard: u32,
        memory: PyBackedBytes,
        start: usize,
        ends: PyBuffer<i64>,
    ) -> PyResult<Vec<Unknown<'py>>> {
        let number =
            u16::try_from(self.memories.len()).map_err(|_| PyValueError::new_err("too many runs"))?;
        // Places have 32 bits; entries that are not in the memory are left.
        let reached = &memory[..memory.len().min(u32::MAX as usize)];
        self.scan.add(&mut self.kinds, reached, number, shard, start, &ends.to_vec(py)?);
        let unknown = self.scan.unknown.iter().map(|&(kind, shows_session, place)| {
            let row = &self.scan.rows[place];
            let known = &self.kinds.all[kind];
            (
                kind,
                shows_session,
                known.operation as u8,
                PyBytes::new(py, &known.head),
                PyBytes::new(py, row.o.of(&memory)),
                PyBytes::new(py, row.key.of(&memory)),
                row.time,
                row.wall,
            )
        });
        let unknown = unknown.collect();
        self.memories.push(memory);
        Ok(unknown)
    }

    /// Say how rows of a kind are written; ``namespace`` is a number of the shard's namespace.
    fn learn(
        &mut self,
        kind: usize,
        shows_session: bool,
        layout: GivenLayout,
        namespace: u32,
    ) -> PyResult<()> {
        let layout = layout_of(layout)?;
        let known = self.kinds.all.get_mut(kind).ok_or_else(|| PyValueError::new_err("no such kind"))?;
        known.namespace = namespace;
        known.layouts[usize::from(shows_session)] = Some(layout);
        Ok(())
    }

    /// Say how the ends of transactions with changes of some namespaces are written.
    fn learn_end(&mut self, lsid_size: usize, namespaces: Vec<u32>, layout: GivenLayout) -> PyResult<()> {
        self.ends.learn(lsid_size, namespaces, layout_of(layout)?);
        Ok(())
    }

    /// Say what the tokens of the ends of a session have before the number, and their type bits.
    fn learn_session(
        &mut self,
        lsid: PyBackedBytes,
        middle: PyBackedBytes,
        type_bits: Option<PyBackedBytes>,
    ) {
        let session =
            SessionToken { middle: middle.to_vec(), type_bits: type_bits.map(|bits| bits.to_vec()) };
        self.ends.learn_session(&lsid, session);
    }

    /// Leave rows without a layout; return the numbers of entries that are left, and the transactions.
    ///
    /// These are the ones whose ends are not known; with ``marks_end``, rows are made of the other ends.
    fn settle<'py>(
        &mut self,
        py: Python<'py>,
        marks_end: bool,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<End<'py>>)> {
        let memory = self.memories.last().ok_or_else(|| PyValueError::new_err("nothing was scanned"))?;
        let ends = self.scan.settle(&mut self.kinds, &self.ends, memory, marks_end, |rows, namespaces| {
            end_of(py, rows, namespaces, memory)
        });
        let left: Vec<u8> = self.scan.left.iter().flat_map(|&entry| i64::from(entry).to_le_bytes()).collect();
        Ok((PyBytes::new(py, &left), ends))
    }

    /// The changes that may have an image: row, kind, cluster time, and index within the transaction.
    fn changes(&self) -> Vec<(usize, u32, u64, u32)> {
        let rows = self.scan.rows.iter().enumerate().filter(|(_, row)| {
            let is_insert = self.kinds.all.get(row.kind as usize).map(|kind| kind.operation);
            row.end_session.is_none() && is_insert != Some(Operation::Inserted)
        });
        rows.map(|(place, row)| (place, row.kind, row.time, row.index)).collect()
    }

    /// How many rows there are.
    fn rows(&self) -> usize {
        self.scan.rows.len()
    }

    /// Return the columns of all rows and of finished ones, in the order of their tokens.
    ///
    /// ``times`` has the cluster times of the finished rows; ``images`` is empty, or has an item for each row.
    /// ``allocate`` returns a buffer for some bytes, and a view of it.
    fn columns<'py>(
        &mut self,
        times: PyBackedBytes,
        finished: Vec<GivenColumn>,
        images: Vec<Option<PyBackedBytes>>,
        allocate: Bound<'py, PyAny>,
    ) -> PyResult<(usize, Vec<MadeColumn<'py>>)> {
        if finished.len() != COLUMNS.len() {
            return Err(PyValueError::new_err("not all columns are given"));
        }
        let finished: Vec<Finished> = finished
            .iter()
            .map(|(valid, offsets, data)| Finished {
                valid: valid.as_deref(),
                offsets: offsets.as_deref().unwrap_or_default(),
                data,
            })
            .collect();
        let memories = self.memories.iter().map(|memory| &**memory).collect();
        let images: Vec<Option<&[u8]>> = images.iter().map(|image| image.as_deref()).collect();
        let merge = Merge::new(&self.scan, &self.kinds, &self.ends, &images, memories, &finished, &times);
        let count = merge.len();
        let mut targets = Vec::new();
        for width in self.widths {
            targets.push(Target::new(&allocate, ((width + width / 16 + 8) * count).min(MOST_RESERVED))?);
        }
        let columns = &mut self.columns;
        merge.write(columns, |number, at, bytes| targets[number].put(&allocate, at, bytes))?;
        let whole = |bytes: &[u8]| -> PyResult<Bound<'py, PyAny>> {
            let mut target = Target::new(&allocate, bytes.len())?;
            target.put(&allocate, 0, bytes)?;
            Ok(target.into_buffer())
        };
        let mut made = Vec::new();
        let py = allocate.py();
        for (number, (target, width)) in targets.into_iter().zip(&mut self.widths).enumerate() {
            let column = &columns.all[number];
            let valid = column.bitmap().map(|bits| whole(&bits)).transpose()?;
            let has_offsets = !column.offsets.is_empty();
            let offsets = has_offsets.then(|| whole(&column.offsets)).transpose()?;
            *width = column.put.div_ceil(count.max(1));
            let values = columns.dictionary(number).map(|dictionary| {
                (PyBytes::new(py, &dictionary.offsets), PyBytes::new(py, &dictionary.data))
            });
            made.push((valid, offsets, target.into_buffer(), column.put, values));
        }
        Ok((count, made))
    }
}

impl From<TooLarge> for PyErr {
    fn from(_: TooLarge) -> PyErr {
        PyOverflowError::new_err("a column has more than 2 GB")
    }
}

fn template((pieces, holes): Pieces) -> PyResult<Template> {
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    Template::new(&pieces, &holes).ok_or_else(|| PyValueError::new_err("no such template"))
}

fn layout_of((token, event, rest, names, shard): GivenLayout) -> PyResult<Layout> {
    Ok(Layout {
        token: template(token)?,
        event: template(event)?,
        rest: rest.map(template).transpose()?,
        names: names.map(|name| name.map(String::into_bytes)),
        shard: shard.into_bytes(),
    })
}

fn end_of<'py>(py: Python<'py>, rows: &[Row], namespaces: Vec<u32>, memory: &[u8]) -> End<'py> {
    let first = &rows[0];
    let wall = PyBytes::new(py, &first.wall.to_le_bytes());
    let lsid = PyBytes::new(py, first.lsid.of(memory));
    (first.time, wall, lsid, first.number, rows.len(), namespaces)
}

/// The ends of whole documents at the beginning of a part of a file, and their cluster times.
#[pyfunction(name = "split")]
fn split_file(py: Python<'_>, memory: PyBackedBytes) -> (Bound<'_, PyBytes>, Bound<'_, PyBytes>) {
    let (ends, times) = split::split(&memory);
    (PyBytes::new(py, &ends), PyBytes::new(py, &times))
}

/// Bytes that Python has allocated.
fn placed<'py>(allocate: &Bound<'py, PyAny>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut target = Target::new(allocate, bytes.len())?;
    target.put(allocate, 0, bytes)?;
    Ok(target.into_buffer())
}

/// Offsets and data of a column of text, and the rows that are left.
type FoundTexts<'py> = (Bound<'py, PyBytes>, Bound<'py, PyAny>, Bound<'py, PyBytes>);
/// The types of values, where they begin and end; and their texts, if they were asked for.
type FoundField<'py> =
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<FoundTexts<'py>>);

/// Fields of documents by their names, with their text or without.
///
/// A row without a document begins before 0. Nothing is returned if a document is damaged, or has a field
/// twice, or one that is neither named nor ``ignored``.
#[pyfunction(name = "fields")]
fn found_fields<'py>(
    memory: PyBuffer<u8>,
    starts: PyBuffer<i64>,
    ends: PyBuffer<i64>,
    names: Vec<(PyBackedBytes, bool)>,
    ignored: Option<Vec<Vec<u8>>>,
    allocate: Bound<'py, PyAny>,
) -> PyResult<Option<Vec<FoundField<'py>>>> {
    let py = allocate.py();
    let mut fields: Vec<Field> = names.iter().map(|(name, has_texts)| Field::new(name, *has_texts)).collect();
    let memory = memory.to_vec(py)?;
    match texts::find(&memory, &starts.to_vec(py)?, &ends.to_vec(py)?, &mut fields, ignored.as_deref()) {
        Ok(()) => {}
        Err(Uneven::Document) => return Ok(None),
        Err(Uneven::TooLarge) => return Err(TooLarge.into()),
    }
    let mut found = Vec::new();
    for field in fields {
        let texts = field.texts.map(|texts| -> PyResult<FoundTexts<'py>> {
            let data = placed(&allocate, texts.data())?;
            Ok((PyBytes::new(py, &texts.ends), data, PyBytes::new(py, &texts.left)))
        });
        let bytes = |values: &[u8]| PyBytes::new(py, values);
        found.push((bytes(&field.kinds), bytes(&field.starts), bytes(&field.ends), texts.transpose()?));
    }
    Ok(Some(found))
}

/// A column as its offsets and its data.
type GivenBytes = (PyBuffer<i32>, PyBuffer<u8>);
/// The pieces of stored tokens, of those that are shown, and the lengths of indexes by their first digits.
type GivenRewriter = ([Vec<u8>; 4], [Vec<u8>; 4], Vec<([u8; 2], usize)>);
/// What is before a token, what is cut out, how to find a description; how tokens are rewritten.
type GivenWriter = (Vec<u8>, (usize, usize), Option<Vec<usize>>, Option<GivenRewriter>);

/// Offsets and data of tokens and of events as a stream shows them, and the places of rows that are left.
///
/// Nothing is returned if they are too large for one column.
#[pyfunction(name = "show")]
fn shown_events<'py>(
    shared: (Vec<u8>, Vec<u8>, Vec<u8>),
    tokens: GivenBytes,
    events: GivenBytes,
    rows: PyBuffer<i64>,
    kinds: PyBuffer<i64>,
    writers: Vec<GivenWriter>,
    allocate: Bound<'py, PyAny>,
) -> PyResult<Option<([Bound<'py, PyAny>; 4], Bound<'py, PyBytes>)>> {
    let py = allocate.py();
    let column = |(offsets, data): GivenBytes| -> PyResult<shown::Column> {
        Ok(shown::Column { offsets: offsets.to_vec(py)?, data: data.to_vec(py)? })
    };
    let writers: Vec<shown::Writer> = writers
        .into_iter()
        .map(|(lead, cut, jumps, rewriter)| {
            let rewriter =
                rewriter.map(|(stored, shown, index_sizes)| shown::Rewriter { stored, shown, index_sizes });
            shown::Writer { lead, cut, jumps, rewriter }
        })
        .collect();
    let (token_lead, token_end, no_paths) = shared;
    let shared = shown::Shared { token_lead, token_end, no_paths };
    let (rows, kinds) = (rows.to_vec(py)?, kinds.to_vec(py)?);
    let Some(made) = shown::show(&shared, &column(tokens)?, &column(events)?, &rows, &kinds, &writers) else {
        return Ok(None);
    };
    let buffer = |bytes: &[u8]| placed(&allocate, bytes);
    let columns =
        [buffer(&made.token_ends)?, buffer(&made.tokens)?, buffer(&made.event_ends)?, buffer(&made.events)?];
    Ok(Some((columns, PyBytes::new(py, &made.left))))
}

#[pymodule]
fn tailrace_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("COLUMNS", COLUMNS.to_vec())?;
    module.add_function(wrap_pyfunction!(split_file, module)?)?;
    module.add_function(wrap_pyfunction!(found_fields, module)?)?;
    module.add_function(wrap_pyfunction!(shown_events, module)?)?;
    module.add_class::<Kernel>()
}
