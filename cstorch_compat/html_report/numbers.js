"use strict";
// Numbers as text. Whole numbers show all their digits. Rounded numbers have three or four significant digits, never
// fewer than their whole part, and only zero is shown as 0. The unit is chosen after rounding: 999,950 is 1M, not 1,000k.

const LARGE = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SMALL = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];

// Adding 0 turns -0 into 0.
const whole = (n) => (Math.round(n) + 0).toLocaleString("en-US");
function figure(n, digits = 3) {
  const rounded = Number(n.toPrecision(digits)), size = Math.abs(rounded);
  if (size >= 10 ** (digits - 1)) return whole(n);
  // A long row of zeros is hard to count.
  if (size && size < 1e-4) return rounded.toExponential();
  return (rounded + 0).toLocaleString("en-US", { maximumSignificantDigits: digits });
}
// [number, prefix], by the largest unit that the rounded number reaches; by the smallest for what reaches none.
function prefixed(n, digits, units) {
  const size = Math.abs(Number(n.toPrecision(digits)));
  const [unit, prefix] = units.find((u) => size >= u[0]) || units[units.length - 1];
  return [figure(n / unit, digits), prefix];
}
function short(n) {
  return Math.abs(Math.round(n)) < 1e4 ? figure(n) : prefixed(n, 3, LARGE).join("");
}
const quantity = (n, unit) => (n === 0 ? ["0", ""] : prefixed(n, 4, SMALL)).join(" ") + unit;
const rate = (n) => figure(n, 4);
const percent = (x) => figure(100 * x) + " %";
