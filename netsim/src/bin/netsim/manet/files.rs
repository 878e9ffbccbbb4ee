//! The files that `netsim manet` writes.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use capillary::draw::Drawing;
use capillary::format::Format;
use clap::{Args, ValueEnum};
use netsim::mobility::Frame;
use netsim::mobility::trace::{gzip, write_bonnmotion, write_ns2};
use program::picture;
use program::table::counted;
use serde_json::json;

use super::View;
use super::motion::{Source, WRITTEN_MARGIN_M};
use crate::failure::Failure;

/// What to write beside the rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
pub(super) struct Files {
    /// Write the motion as a trace: .movements (BonnMotion), .ns_movements, .ns2 or .tcl (ns-2), each also with .gz
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// The format of --write-trace, if the name does not tell
    #[arg(long, value_enum, requires = "write_trace")]
    trace_format: Option<TraceFormat>,
    /// Metres to add to all coordinates of an ns-2 trace, which must be above 0
    #[arg(long, value_name = "M", default_value_t = WRITTEN_MARGIN_M, requires = "write_trace")]
    margin: f64,
    /// Write each frame as a topology file into this folder
    #[arg(long, value_name = "FOLDER")]
    write_frames: Option<PathBuf>,
    /// The format of topology files: gml, graphml, sndlib-xml, sndlib-native, json, dot, csv
    #[arg(long, value_name = "FORMAT", default_value = "json", requires = "write_frames")]
    frame_format: Format,
    /// Write all frames into this file, a JSON object a line: frame, time_s, positions, links
    #[arg(long, value_name = "FILE")]
    write_json: Option<PathBuf>,
    /// Draw a frame, as .svg or .png
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    /// Which frame to draw, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "draw")]
    draw_frame: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TraceFormat {
    /// BonnMotion's native format
    Bonnmotion,
    /// ns-2's movement files
    Ns2,
}

/// What the name of a trace file tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceName {
    pub(super) format: TraceFormat,
    is_compressed: bool,
}

impl TraceName {
    pub(super) fn new(path: &Path, format: Option<TraceFormat>) -> Result<Self, Failure> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, is_compressed) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (name.as_str(), false),
        };
        let is_ns2 = [".ns_movements", ".ns2", ".tcl"].iter().any(|ending| stem.ends_with(ending));
        let by_name = match stem.ends_with(".movements") {
            true => Some(TraceFormat::Bonnmotion),
            false => is_ns2.then_some(TraceFormat::Ns2),
        };
        let format = format.or(by_name).ok_or_else(|| {
            Failure::Usage(format!(
                "{}: the name does not tell the format of the trace; expected .movements, .ns_movements, .ns2 or \
                 .tcl, or the format as an option",
                path.display()
            ))
        })?;
        Ok(Self { format, is_compressed })
    }
}

/// The files that are written; those that grow with the frames are open.
#[derive(Debug)]
pub(super) struct Open<'a> {
    files: &'a Files,
    range: netsim::mobility::Length,
    json: Option<(&'a Path, BufWriter<File>)>,
    /// As many digits as the last frame's number has, so that names sort.
    digits: usize,
}

impl Files {
    pub(super) fn check(&self, frames: u64) -> Result<(), Failure> {
        if self.draw.is_some() && self.draw_frame >= frames {
            return Err(Failure::Usage(format!(
                "--draw-frame {}: the motion has {}, counted from 0",
                self.draw_frame,
                counted(frames as usize, "frame")
            )));
        }
        if let Some(path) = &self.draw {
            picture::check_name(path).map_err(|failure| Failure::Usage(format!("--draw {failure}")))?;
        }
        if let Some(path) = &self.write_trace {
            TraceName::new(path, self.trace_format)?;
        }
        Ok(())
    }

    /// Writes what is known before the first frame, and opens the rest.
    pub(super) fn open<'a>(&'a self, source: &Source, view: &View, frames: u64) -> Result<Open<'a>, Failure> {
        if let Some(path) = &self.write_trace {
            self.write_trace(path, source, view, frames)?;
        }
        if let Some(folder) = &self.write_frames {
            std::fs::create_dir_all(folder).map_err(|error| Failure::File(folder.clone(), error))?;
        }
        let json = self.write_json.as_deref().map(|path| match File::create(path) {
            Ok(file) => Ok((path, BufWriter::new(file))),
            Err(error) => Err(Failure::File(path.into(), error)),
        });
        let digits = frames.saturating_sub(1).to_string().len();
        Ok(Open { files: self, range: view.range, json: json.transpose()?, digits })
    }

    fn write_trace(&self, path: &Path, source: &Source, view: &View, frames: u64) -> Result<(), Failure> {
        let name = TraceName::new(path, self.trace_format)?;
        let trace = source.trace(view, frames);
        let (low, _) = trace.bounds();
        let least = low.x.min(low.y) + self.margin;
        if name.format == TraceFormat::Ns2 && least <= 0.0 {
            return Err(Failure::Usage(format!(
                "--margin {}: the least coordinate would be {least}; ns-2 wants all above 0",
                self.margin
            )));
        }
        let text = match name.format {
            TraceFormat::Bonnmotion => write_bonnmotion(&trace),
            TraceFormat::Ns2 => write_ns2(&trace, self.margin),
        };
        if name.is_compressed { put(path, &gzip(&text)) } else { put(path, text.as_bytes()) }
    }
}

impl Open<'_> {
    pub(super) fn frame(&mut self, frame: &Frame, links: &[(usize, usize)]) -> Result<(), Failure> {
        if let Some(folder) = &self.files.write_frames {
            let format = self.files.frame_format;
            let name = format!("frame-{:0digits$}.{format}", frame.number, digits = self.digits);
            let text = capillary::format::write(&frame.topology_of(links), format);
            put(&folder.join(name), text.as_bytes())?;
        }
        if let Some(path) = self.files.draw.as_ref().filter(|_| frame.number == self.files.draw_frame) {
            let topology = frame.topology_of(links);
            let drawing = Drawing::of(&topology)
                .with_note(format!("at {} s", frame.time.as_secs_f64()))
                .with_note([counted(frame.positions.len(), "node"), counted(links.len(), "link")].join(", "))
                .with_note(format!("range {} m", self.range.metres()));
            let svg = drawing.with_scale_bar("m").svg();
            picture::put(Some(path), &svg).map_err(Failure::Output)?;
        }
        if let Some((path, file)) = &mut self.json {
            let positions: Vec<[f64; 2]> = frame.positions.iter().map(|at| [at.x, at.y]).collect();
            let time_s = frame.time.as_secs_f64();
            let line =
                json!({ "frame": frame.number, "time_s": time_s, "positions": positions, "links": links });
            writeln!(file, "{line}").map_err(|error| Failure::File(path.to_path_buf(), error))?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        match self.json {
            Some((path, mut file)) => file.flush().map_err(|error| Failure::File(path.into(), error)),
            None => Ok(()),
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::File(path.into(), error))
}
