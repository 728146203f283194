"""Rows of values with a separator between them."""

from tersely.condensing.detect import TIME_START, Reader, Sample, Signs
from tersely.condensing.readers.pages import has_sentence_lines
from tersely.condensing.readers.tables import columns_of, read_csv


def _are_rows(sample: Sample) -> bool:
    """Whether lines with equal numbers of separators are rows, and not stack traces, a log or sentences."""
    if columns_of(sample) != "csv" or sample.framed >= 0.2 or TIME_START.match(sample.lines[0]):
        return False
    return not sample.is_sentences and not has_sentence_lines(sample)


READER = Reader("csv", Signs((0.69, _are_rows)), read_csv, proven=False, holds_json=True, by_line=True)
