//! Memory that Python has allocated for columns.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PySlice;

/// A buffer of Python, and a memoryview of it.
pub struct Target<'py> {
    buffer: Bound<'py, PyAny>,
    view: Bound<'py, PyAny>,
}

impl<'py> Target<'py> {
    /// ``allocate`` returns a buffer of some bytes, and the view.
    pub fn new(allocate: &Bound<'py, PyAny>, size: usize) -> PyResult<Self> {
        let (buffer, view) = allocate.call1((size,))?.extract()?;
        Ok(Target { buffer, view })
    }

    /// Copy bytes to a place; what is before it stays, in another buffer if this one is too small.
    pub fn put(&mut self, allocate: &Bound<'py, PyAny>, at: usize, bytes: &[u8]) -> PyResult<()> {
        if at + bytes.len() > self.view.len()? {
            let larger = Target::new(allocate, 2 * (at + bytes.len()))?;
            larger.copy(0, &self.part(0, at)?.to_vec(self.view.py())?)?;
            *self = larger;
        }
        self.copy(at, bytes)
    }

    fn copy(&self, at: usize, bytes: &[u8]) -> PyResult<()> {
        self.part(at, at + bytes.len())?.copy_from_slice(self.view.py(), bytes)
    }

    fn part(&self, start: usize, end: usize) -> PyResult<PyBuffer<u8>> {
        let place = PySlice::new(self.view.py(), start as isize, end as isize, 1);
        PyBuffer::get(&self.view.get_item(place)?)
    }

    pub fn into_buffer(self) -> Bound<'py, PyAny> {
        self.buffer
    }
}
