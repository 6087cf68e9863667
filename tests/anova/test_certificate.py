"""Certificates: the worst of all terms, in numbers and in words."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

from treeanova import Certificate, purify
from treeanova.anova.certificate import impurity
from treeanova.model import HigherCertificate, TermCertificate

GOOD = TermCertificate(1e-13, 0.5, 1, 0.25, "direct", 1)
HIGHER = HigherCertificate((3, 5), 40, 30, 1e-3, {3: 16, 4: 8}, 0.002, is_exact=False, measured=0.03, n_measured=12)


def test_impurity_is_the_largest_slice_mean_relative_to_the_scale_of_its_output():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(2, 3, 4)), rng.random((3, 4))
    scales = np.array([2.0, 5.0])
    rows = (values * weights).sum(axis=2) / weights.sum(axis=1)
    columns = (values * weights).sum(axis=1) / weights.sum(axis=0)
    expected = max(np.abs(rows / scales[:, None]).max(), np.abs(columns / scales[:, None]).max())
    assert impurity(values, weights, scales) == pytest.approx(expected, rel=1e-14)
    assert impurity(values, weights, np.zeros(2)) == 0.0


def test_impurity_sees_slices_without_mass():
    weights = np.random.default_rng(0).random((3, 4, 5))
    weights[0, 1] = 0.0
    values = np.zeros((1, 3, 4, 5))
    values[0, 0, 1] = 1.0  # all along the slice without mass
    assert impurity(values, weights, np.ones(1)) == pytest.approx(1.0)


def test_nan_never_passes_for_pure():
    terms = {
        ("a",): TermCertificate(0.0, 0.0, 1, 0.0, "direct", 1),
        ("b",): TermCertificate(float("nan"), 0.0, 1, 0.0, "direct", 1),
    }
    for order in (list(terms), list(terms)[::-1]):
        certificate = Certificate({key: terms[key] for key in order}, 0.0, 1e-10)
        assert not certificate.is_pure
        assert not certificate.tables_are_pure
        assert np.isnan(certificate.impurity)
        assert certificate.least_pure[0] == ("b",)


def test_an_error_is_derived_from_impurity_and_correlation():
    assert TermCertificate(1e-12, 0.6, 1, 0.0, "cg", 5).error == pytest.approx(1e-12 / 0.64)
    assert TermCertificate(1e-12, 0.6, 1, 0.0, "cg", 5, error=3e-12).error == 3e-12
    assert TermCertificate(1e-12, 0.6, 1, 0.0, "cg", 5, error=0.0).error == 1e-12


def test_an_error_far_above_the_tolerance_is_not_pure():
    term = TermCertificate(1e-16, 1.0, 1, 0.0, "direct", 1)
    assert term.error > 0.1
    assert not Certificate({("a", "b"): term}, 0.0, 1e-10).is_pure


def test_the_worst_of_all_terms():
    other = TermCertificate(1e-14, 0.9, 3, 0.5, "cg", 40, error=2e-13)
    certificate = Certificate({("a", "b"): GOOD, ("c", "d"): other}, 0.0, 1e-10)
    assert certificate.impurity == 1e-13
    assert certificate.max_correlation == 0.9
    assert certificate.error == 2e-13
    assert certificate.n_components == 3
    assert certificate.empty_share == 0.5
    assert certificate.iterations == 40
    assert certificate.is_pure


def test_no_terms_at_all():
    certificate = Certificate({}, 0.0, 1e-10)
    assert (certificate.impurity, certificate.n_components, certificate.iterations) == (0.0, 1, 0)
    assert certificate.is_pure
    assert certificate.purity == "no terms"


@pytest.mark.parametrize(
    ("excess", "error", "worst"),
    [
        (1.0, 1e-9, "impure"),
        (1.0, 1.0, "inaccurate"),
        (np.nan, 1.0, "impure"),
        (1.0, np.nan, "inaccurate"),  # not measured
    ],
)
def test_the_least_pure_term_misses_its_limit_by_most(excess, error, worst):
    terms = {
        ("good",): GOOD,
        ("impure",): TermCertificate(excess * 1e-8, 0.0, 1, 0.0, "cg", 1),
        ("inaccurate",): TermCertificate(0.0, 0.0, 1, 0.0, "cg", 1, error=error),
    }
    key, term = Certificate(terms, 0.0, 1e-10).least_pure
    assert key == (worst,)
    assert term is terms[key]


def test_certificate_tells_what_the_weights_leave_open():
    weights = np.array([[1.0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0]])
    certificate = purify(np.arange(16.0).reshape(4, 4), weights).certificate
    pair = certificate.terms[0, 1]
    assert pair.n_components == certificate.n_components == 2
    assert pair.empty_share == pytest.approx(11 / 16)
    assert certificate.terms[0,].empty_share == pytest.approx(1 / 4)
    assert certificate.reconstruction_error < 1e-15
    assert certificate.is_pure
    assert "2   68.8%" in str(certificate)


def whole_certificate():
    terms = {("a", "b"): GOOD, ("a",): GOOD, ("b",): dataclasses.replace(GOOD, impurity=2e-13)}
    return Certificate(terms, 1e-16, 1e-10, HIGHER, density_gap=0.01, remainder_share=0.2)


def test_the_certificate_of_fewer_terms():
    part = whole_certificate().of_terms([("a",), ("b",), ("a", "b", "c")], n_higher=7)
    assert list(part.terms) == [("a",), ("b",)]
    assert part.impurity == 2e-13
    assert part.higher == dataclasses.replace(HIGHER, n_terms=7)
    assert part.remainder_share is None
    assert (part.reconstruction_error, part.tol, part.density_gap) == (1e-16, 1e-10, 0.01)


def test_the_certificate_of_fewer_terms_keeps_what_was_measured_at_rows():
    assert whole_certificate().of_terms([("a",)]).higher == HIGHER
    without = dataclasses.replace(whole_certificate(), higher=None)
    assert without.of_terms([("a",)], n_higher=3).higher is None


def test_the_words_of_a_certificate():
    certificate = whole_certificate()
    lines = str(certificate).splitlines()
    assert lines[0] == (
        "orders 1 and 2 pure to 2.0e-13; orders 3 to 5 pure within 3.0% of their size (the 12 largest of 40 terms); "
        "sum of terms within 1.0e-16 of the scores"
    )
    assert lines[1].startswith("orders 3 to 5: 40 terms at rows; 30 corrected for dependence on coarse bins (16 at ")
    assert lines[2] == "tables of pairs differ from the joint density of higher orders by up to 1.0%"
    assert lines[3].split() == ["term", "impurity", "max", "corr", "error", "parts", "empty", "method"]
    assert lines[4].split() == ["a", "×", "b", "1.0e-13", "0.50000000", "1.3e-13", "1", "25.0%", "direct", "(1)"]
    assert lines[-1].startswith("error: of purification alone; what the correction of higher orders leaves ")
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("change", "purity", "words"),
    [
        ({}, 0.03, "pure within 3.0% of their size (the 12 largest of 40 terms)"),
        ({"n_terms": 12}, 0.03, "pure within 3.0% of their size (all terms)"),
        ({"n_terms": 0, "max_order": 2}, 0.0, "in the remainder"),
        ({"is_exact": True}, 0.0, "pure in closed form"),
        (
            {"measured": None},
            np.nan,
            "corrected for dependence on coarse bins (30 terms of orders 3 and 4), purity not measured",
        ),
        ({"measured": None, "n_corrected": 0}, np.nan, "not corrected for dependence, purity not measured"),
    ],
)
def test_purity_of_terms_at_rows(change, purity, words):
    higher = dataclasses.replace(HIGHER, **change)
    np.testing.assert_equal(higher.purity, purity)
    assert higher.in_short == f"orders 3 to 5 {words}"
    assert str(higher).startswith("orders 3 to 5: ")
    assert Certificate({("a",): GOOD}, 0.0, 1e-10, higher).is_pure == (purity == 0.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"table_error": 0.02},
            "accurate to about 2% of the largest score: orders 3 to 5 corrected for dependence on ",
        ),
        ({"table_error": 0.3, "n_corrected": 0}, "about 30% of the largest score: orders 3 to 5 not corrected"),
        ({"table_error": np.nan}, "not measured, for lack of time: orders 3 to 5 corrected"),
    ],
)
def test_errors_of_tables_include_those_of_the_orders_above_them(change, words):
    higher = dataclasses.replace(HIGHER, measured=None, n_terms=0, **change)
    certificate = Certificate({("a",): GOOD}, 0.0, 1e-10, higher)
    assert words in higher.accuracy
    assert higher.accuracy.startswith(("tables of orders 1 and 2", "accuracy of tables of orders 1 and 2"))
    assert certificate.tables_are_pure
    assert not certificate.is_pure
    np.testing.assert_equal(certificate.error, GOOD.error + higher.table_error)
    for text in (str(certificate), certificate.purity, higher.accuracy):
        assert "nan" not in text


def test_certificates_survive_pickles_and_copies():
    certificate = whole_certificate()
    for same in (pickle.loads(pickle.dumps(certificate)), copy.deepcopy(certificate)):
        assert same == certificate
        with pytest.raises(TypeError, match="does not support item assignment"):
            same.terms["a",] = GOOD


def test_a_printed_certificate_fits_a_screen():
    terms = {(i, i + 1): TermCertificate(1e-16 * i, 0.5, 1, 0.0, "direct", 1) for i in range(300)}
    lines = str(Certificate(terms, 1e-16, 1e-10)).splitlines()
    assert len(lines) < 30
    assert lines[-1] == "the 24 least pure of 300 terms with tables; `terms` has all of them"
    assert lines[-2].startswith("299 × 300 ")
    assert not any(line.startswith("3 × 4 ") for line in lines)


def test_no_error_is_printed_as_minus_zero():
    certificate = purify([[0, 0], [0, 1]], [[1, 1], [1, 1]]).certificate
    assert math.copysign(1.0, certificate.reconstruction_error) == 1.0
    assert "-0.0" not in str(certificate)


def test_terms_that_were_not_searched_are_not_called_small():
    unknown = dataclasses.replace(HIGHER, n_left_out=10, largest_missed=math.nan)
    assert "others added up by order, which were not searched for large ones" in str(unknown)
    assert "10 others" not in str(unknown)
    known = dataclasses.replace(HIGHER, n_left_out=10, largest_missed=0.002)
    assert "10 others added up by order, none with more than about 0.20% of the variance" in str(known)
