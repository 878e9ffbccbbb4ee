//! What parallel programs ask of storage (`[charisma]`): trace records, formats, analyses, and a workload model.
//!
//! `[charisma]` is A. Purakayastha, C. Ellis, D. Kotz, N. Nieuwejaar, M. Best, *Characterizing Parallel File-Access
//! Patterns on a Large-Scale Multiprocessor*, Duke CS-1994-33. Nothing here does I/O: bytes in, records out.
//!
//! | module | does |
//! |---|---|
//! | [`record`] | the thirteen kinds of records of Table 1 |
//! | [`lines`] | traces as JSON lines, plain or compressed |
//! | [`regions`] | many regions of one call in one line: as [`runs`], or listed |
//! | [`columns`] | requests as Parquet |
//! | [`darshan`] | logs of Darshan with DXT, as records |
//! | [`fio`] | logs that fio plays |
//! | [`analysis`] | every table and figure of the study |
//! | [`model`] | workloads drawn from the study's numbers |
//! | [`paper`] | the study's numbers |
//! | [`replay`] | a trace as work to be done again |
//!
//! ```
//! use sfio_trace::analysis::{Analysis, Conventions};
//! use sfio_trace::model::{Generator, Model};
//!
//! let model = Model::preset("charisma-cmf").expect("it is one");
//! let mut analysis = Analysis::new(Conventions::default());
//! for job in Generator::new(&model, 7).take(20) {
//!     job.iter().for_each(|record| analysis.note(record));
//! }
//! assert_eq!(analysis.finish().jobs, 20);
//! ```

pub mod analysis;
pub mod columns;
pub mod darshan;
pub mod fio;
pub mod lines;
pub mod model;
pub mod paper;
pub mod record;
pub mod regions;
pub mod replay;
pub mod runs;
