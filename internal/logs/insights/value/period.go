package value

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Unit is the unit of a period.
type Unit uint8

const (
	millisecond Unit = iota + 1
	second
	minute
	hour
	day
	week
	month
	quarter
	year
)

// String returns the unit's shortest name.
func (u Unit) String() string {
	return [...]string{"", "ms", "s", "m", "h", "d", "w", "mo", "q", "y"}[u]
}

// units are the names AWS documents for bin; those of more than one letter may have a plural s.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-datetime
var units = map[string]Unit{
	"millisecond": millisecond, "ms": millisecond, "msec": millisecond,
	"second": second, "s": second, "sec": second,
	"minute": minute, "m": minute, "min": minute,
	"hour": hour, "h": hour, "hr": hour,
	"day": day, "d": day,
	"week": week, "w": week,
	"month": month, "mo": month, "mon": month,
	"quarter": quarter, "q": quarter, "qtr": quarter,
	"year": year, "y": year, "yr": year,
}

// caps are the most of a unit that AWS takes: bin(300s) is bin(60s).
var caps = [...]float64{millisecond: 1000, second: 60, minute: 60, hour: 24, year: 0}

// ParsePeriod reads a period as queries write it: a whole number above 0, directly or after white space followed by a
// unit (5m, 1h, 30 days). The result is a Value of PeriodKind, the argument of bin, datefloor and
// dateceil. As on AWS more than 1000ms, 60s, 60m or 24h counts as just that.
func ParsePeriod(s string) (Value, bool) {
	i := 0
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	n, err := strconv.ParseInt(s[:i], 10, 32)
	if err != nil || n == 0 {
		return Value{}, false
	}
	name := strings.ToLower(strings.TrimSpace(s[i:]))
	u, ok := units[name]
	if !ok && len(name) > 2 {
		u, ok = units[strings.TrimSuffix(name, "s")]
	}
	if !ok {
		return Value{}, false
	}
	f := float64(n)
	if c := caps[u]; c > 0 {
		f = min(f, c)
	}
	return Value{kind: PeriodKind, unit: u, num: f}, true
}

// periodValue returns v as a period: one, or a string that spells one.
func periodValue(v Value) (n int64, u Unit, ok bool) {
	if v.kind == StringKind {
		v, _ = ParsePeriod(v.text)
	}
	return int64(v.num), v.unit, v.kind == PeriodKind
}

// The range of moments that dates are computed for: years 1 to 9999.
const (
	firstMoment = -62135596800000
	lastMoment  = 253402300799999
)

// timestampValue returns v as milliseconds: a moment or a number within the years 1 to 9999.
func timestampValue(v Value) (ms int64, ok bool) {
	f, ok := v.AsNumber()
	f = math.Floor(f)
	if !ok || v.kind == BoolKind || f < firstMoment || f > lastMoment {
		return 0, false
	}
	return int64(f), true
}

// Milliseconds returns the length of a period in milliseconds; false for months, quarters and years, whose length
// varies.
func (v Value) Milliseconds() (int64, bool) {
	n, u, ok := periodValue(v)
	return n * length[u], ok && u <= week
}

var length = [...]int64{0, 1, 1000, 60_000, 3_600_000, 86_400_000, 7 * 86_400_000, 0, 0, 0}

// periodStart returns the start of the period of n units that ms lies in. Periods up to days are counted
// from 1970-01-01 00:00 UTC, weeks from the Monday after it, months, quarters and years from January of year 0.
func periodStart(ms, n int64, u Unit) int64 {
	switch u {
	case month, quarter, year:
		t := time.UnixMilli(ms).UTC()
		n = unitMonths(n, u)
		m := int64(t.Year())*12 + int64(t.Month()) - 1
		m -= ((m % n) + n) % n
		return fromMonths(m)
	}
	var origin int64
	if u == week {
		origin = 4 * length[day] // Monday, 1970-01-05
	}
	size := n * length[u]
	return ms - (((ms-origin)%size)+size)%size
}

// following returns the start of the period after the one that starts at ms.
func following(ms, n int64, u Unit) int64 {
	if u < month {
		return ms + n*length[u]
	}
	t := time.UnixMilli(ms).UTC()
	return fromMonths(int64(t.Year())*12 + int64(t.Month()) - 1 + unitMonths(n, u))
}

func unitMonths(n int64, u Unit) int64 {
	switch u {
	case quarter:
		return 3 * n
	case year:
		return 12 * n
	}
	return n
}

func fromMonths(m int64) int64 {
	return time.Date(int(m/12), time.Month(m%12)+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}
