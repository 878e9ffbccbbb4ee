//! The numbers of `[charisma]` as they are printed, for comparisons and for tests.
//!
//! Errata: the text of §4.2 has 5.9 % of the CMMD files read and written, Table 3 has 5.4 %; §4.9 calls 23 of 127 jobs
//! about 19 %, they are 18 %. Tables 6 and 8 fit together only if requests are compared within one open of a file.

/// A row of Table 2 or 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperDay {
    /// The day, in 1994.
    pub date: &'static str,
    /// Jobs, files opened, read, written, both, none, temporary.
    pub counts: [u64; 7],
    /// Hundredths of a megabyte read and written.
    pub centimegabytes: [u64; 2],
}

const fn day(date: &'static str, counts: [u64; 7], read: u64, written: u64) -> PaperDay {
    PaperDay { date, counts, centimegabytes: [read, written] }
}

/// Table 2: CMF jobs.
pub const CMF_DAYS: [PaperDay; 23] = [
    day("Jun 28", [130, 186, 63, 107, 16, 0, 5], 621_105, 997_177),
    day("Jun 29", [118, 194, 71, 123, 0, 0, 1], 101_104, 80_071),
    day("Jun 30", [111, 276, 101, 154, 21, 0, 13], 823_432, 1_342_203),
    day("Jul 01", [41, 159, 21, 135, 3, 0, 8], 86_413, 92_502),
    day("Jul 02", [58, 62, 21, 41, 0, 0, 0], 50_012, 56_100),
    day("Jul 03", [20, 15, 12, 3, 0, 0, 0], 30_069, 12_213),
    day("Jul 04", [46, 38, 17, 17, 1, 3, 0], 48_932, 92_413),
    day("Jul 05", [109, 163, 35, 120, 8, 0, 29], 434_225, 621_113),
    day("Jul 06", [103, 192, 59, 122, 11, 0, 19], 34_414, 53_214),
    day("Jul 07", [95, 103, 43, 60, 0, 0, 11], 20_913, 28_134),
    day("Jul 08", [44, 81, 61, 19, 1, 0, 0], 8121, 10_013),
    day("Jul 09", [47, 57, 20, 37, 0, 0, 0], 13_534, 22_313),
    day("Jul 10", [29, 87, 31, 56, 0, 0, 3], 1213, 11_343),
    day("Jul 11", [88, 294, 103, 168, 23, 0, 10], 109_596, 562_101),
    day("Jul 12", [122, 225, 80, 114, 31, 0, 0], 43_436, 82_912),
    day("Jul 13", [150, 274, 60, 184, 30, 0, 0], 81_226, 178_214),
    day("Jul 14", [95, 190, 51, 137, 2, 0, 3], 134_216, 89_324),
    day("Jul 15", [40, 128, 29, 98, 1, 0, 12], 34_121, 63_293),
    day("Jul 16", [25, 33, 16, 17, 0, 0, 0], 1217, 8343),
    day("Jul 17", [54, 128, 68, 60, 0, 0, 5], 23_943, 23_321),
    day("Jul 18", [85, 184, 65, 104, 15, 0, 0], 101_121, 171_323),
    day("Jul 19", [122, 643, 213, 376, 53, 1, 23], 712_433, 1_131_393),
    day("Jul 20", [28, 68, 31, 34, 3, 0, 0], 21_131, 34_113),
];

/// The last row of Table 2.
pub const CMF_TOTALS: PaperDay = day("", [1760, 3780, 1271, 2286, 219, 4, 142], 3_535_927, 5_763_146);

/// Table 3: CMMD jobs.
pub const CMMD_DAYS: [PaperDay; 14] = [
    day("Jun 23", [6, 28, 8, 20, 0, 0, 4], 12_124, 54_431),
    day("Jun 24", [11, 131, 17, 106, 8, 0, 13], 167_215, 1_149_390),
    day("Jun 25", [15, 86, 21, 62, 3, 0, 2], 894_334, 814_314),
    day("Jun 26", [13, 153, 42, 102, 9, 0, 12], 534_113, 640_155),
    day("Jun 27", [18, 164, 39, 114, 11, 0, 1], 410_001, 910_003),
    day("Jun 28", [9, 71, 32, 35, 4, 0, 0], 81_412, 111_241),
    day("Jun 29", [9, 28, 11, 17, 0, 0, 0], 31_241, 314_233),
    day("Jun 30", [8, 34, 7, 20, 5, 2, 3], 11_205, 744_351),
    day("Jul 01", [6, 13, 5, 8, 0, 0, 0], 30_214, 34_405),
    day("Jul 02", [3, 18, 8, 8, 2, 0, 2], 13_992, 90_002),
    day("Jul 03", [2, 5, 3, 2, 0, 0, 0], 31_441, 41_113),
    day("Jul 04", [7, 12, 4, 7, 1, 0, 0], 20_014, 13_556),
    day("Jul 05", [12, 98, 29, 67, 2, 0, 4], 594_234, 1_007_874),
    day("Jul 06", [8, 63, 31, 28, 4, 0, 3], 189_111, 644_321),
];

/// The last row of Table 3.
pub const CMMD_TOTALS: PaperDay = day("", [127, 904, 257, 596, 49, 2, 44], 3_020_651, 6_569_389);

/// Tables 4 and 5: how many jobs opened 0, 1, …, 9, and 10 or more files.
pub const FILES_PER_JOB: [[u64; 11]; 2] =
    [[431, 813, 205, 63, 31, 19, 31, 16, 13, 4, 134], [0, 8, 6, 10, 14, 11, 12, 33, 13, 6, 14]];

/// Tables 6 and 7: files by interval sizes, 0 to 3 and 4 or more.
pub const INTERVAL_SIZES: [[u64; 5]; 2] = [[1243, 1501, 781, 53, 202], [303, 310, 143, 64, 84]];

/// Tables 8 and 9: files by request sizes, 0 to 3 and 4 or more.
pub const REQUEST_SIZES: [[u64; 5]; 2] = [[4, 849, 1124, 1315, 488], [2, 343, 319, 83, 157]];

/// Tables 10 and 11: percentages by row, of files read, written, both, and overall, each by bytes and by blocks.
pub const SHARING: [[[f64; 8]; 6]; 2] = [
    [
        [29.43, 10.78, 95.45, 88.58, 63.01, 1.37, 71.27, 57.28],
        [31.31, 5.27, 4.29, 5.21, 18.26, 8.22, 14.18, 5.40],
        [12.12, 12.43, 0.26, 4.20, 8.22, 18.72, 4.71, 7.80],
        [3.38, 4.80, 0.00, 1.09, 1.37, 12.33, 1.22, 2.99],
        [0.00, 2.44, 0.00, 0.92, 0.91, 0.91, 0.05, 1.43],
        [23.76, 64.28, 0.00, 0.00, 8.23, 58.45, 8.47, 25.00],
    ],
    [
        [10.51, 0.00, 93.46, 39.77, 34.69, 0.00, 66.48, 26.22],
        [12.45, 0.00, 3.02, 18.96, 4.08, 2.04, 5.75, 12.61],
        [10.12, 5.45, 1.17, 23.32, 4.08, 6.12, 3.87, 17.26],
        [5.45, 2.33, 2.35, 15.77, 36.73, 10.20, 5.09, 11.62],
        [0.39, 1.17, 0.00, 1.34, 0.00, 2.04, 0.11, 1.33],
        [61.09, 91.05, 0.00, 0.84, 20.41, 79.59, 18.47, 30.75],
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_2_and_3_add_up() {
        for (days, totals) in [(&CMF_DAYS[..], CMF_TOTALS), (&CMMD_DAYS[..], CMMD_TOTALS)] {
            for column in 0..7 {
                let sum: u64 = days.iter().map(|day| day.counts[column]).sum();
                assert_eq!(sum, totals.counts[column], "column {column}");
            }
            for column in 0..2 {
                let sum: u64 = days.iter().map(|day| day.centimegabytes[column]).sum();
                assert_eq!(sum, totals.centimegabytes[column], "column {column} of the bytes");
            }
            let [_, files, read, written, both, none, _] = totals.counts;
            assert_eq!(files, read + written + both + none);
        }
    }

    #[test]
    fn overall_sharing_is_of_all_opened_files() {
        for (table, totals) in SHARING.iter().zip([CMF_TOTALS, CMMD_TOTALS]) {
            let [_, files, read, written, both, _, _] = totals.counts.map(|count| count as f64);
            for row in table {
                for unit in 0..2 {
                    let sum = row[unit] * read + row[2 + unit] * written + row[4 + unit] * both;
                    assert!((sum / files - row[6 + unit]).abs() < 0.05, "{row:?}: {}", sum / files);
                }
            }
        }
    }

    #[test]
    fn tables_4_to_9_have_as_many_jobs_and_files() {
        let sums = |counts: &[u64]| counts.iter().sum::<u64>();
        for (index, totals) in [CMF_TOTALS, CMMD_TOTALS].iter().enumerate() {
            assert_eq!(sums(&FILES_PER_JOB[index]), totals.counts[0]);
            assert_eq!(sums(&INTERVAL_SIZES[index]), totals.counts[1]);
            assert_eq!(sums(&REQUEST_SIZES[index]), totals.counts[1]);
        }
    }
}
