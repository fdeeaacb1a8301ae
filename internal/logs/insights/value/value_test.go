package value

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestValuesAreShownAs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    Value
		want string
		kind Kind
	}{
		{Value{}, "", Null}, {Number(math.NaN()), "", Null}, {Number(math.Inf(1)), "", Null},
		{Number(math.Inf(-1)), "", Null},
		{Number(0.1), "0.1", NumberKind}, {Number(math.Copysign(0, -1)), "0", NumberKind},
		{Number(1e21), "1000000000000000000000", NumberKind}, {Number(1e-7), "0.0000001", NumberKind},
		{Number(1.5e300), Number(1.5e300).String(), NumberKind}, {Number(123456789012345680), "123456789012345680",
			NumberKind},
		{Int(math.MaxInt64), "9223372036854775807", NumberKind}, {Int(math.MinInt64), "-9223372036854775808",
			NumberKind}, {Int(0), "0", NumberKind},
		{Bool(true), "1", BoolKind}, {Bool(false), "0", BoolKind}, {String(""), "", StringKind},
		{Time(0), "1970-01-01 00:00:00.000", TimeKind}, {Time(1556640000123), "2019-04-30 16:00:00.123", TimeKind},
		{FromJSON([]byte(" 1.50 ")), "1.50", NumberKind}, {FromJSON([]byte("-0")), "-0", NumberKind},
		{FromJSON([]byte("1E400")), "1E400", StringKind}, {FromJSON([]byte("18446744073709551615")),
			"18446744073709551615", NumberKind},
		{FromJSON([]byte(`"a\u00e4\n\"\/"`)), "aä\n\"/", StringKind}, {FromJSON([]byte("true")), "1", BoolKind},
		{FromJSON([]byte("null")), "", Null}, {FromJSON([]byte(` {"a": [1]} `)), `{"a": [1]}`, MapKind},
		{FromJSON([]byte("[]")), "[]", ListKind},
		{FromJSON(nil), "", Null}, {FromJSON([]byte("x")), "", Null}, {FromJSON([]byte("1 2")), "", Null},
		{FromJSON([]byte(`"a`)), "", Null}, {FromJSON([]byte("-")), "", Null}, {FromJSON([]byte("[1")), "", Null},
		{List(nil), "[]", ListKind}, {List([]Value{Int(1), String("a\"\x01\\"), {}, Bool(true),
			FromJSON([]byte(`{"x":1.0}`)), Time(0), List([]Value{Number(0.5)})}),
			`[1,"a\"\u0001\\",null,true,{"x":1.0},"1970-01-01 00:00:00.000",[0.5]]`, ListKind},
	} {
		if got := c.v.String(); got != c.want || c.v.Kind() != c.kind {
			t.Errorf("%v is shown as %q, not as %q (%v)", c.v.Kind(), got, c.want, c.kind)
		}
		if got := string(c.v.Append([]byte("x"))); got != "x"+c.want {
			t.Errorf("Append gives %q, not %q", got, "x"+c.want)
		}
		if c.v.Clone() != c.v {
			t.Errorf("the clone of %q is another value", c.want)
		}
		if c.v.Bytes() < len(c.want) && c.kind == StringKind {
			t.Errorf("%q holds %d bytes", c.want, c.v.Bytes())
		}
		if c.kind == ListKind && !json.Valid([]byte(c.v.String())) {
			t.Errorf("%s is no JSON", c.v)
		}
	}
}

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for text, same := range map[string]Value{"7": Int(7), "007": Int(7), "-1.50": Number(-1.5), "+.5": Number(0.5),
		"1E3": Int(1000), "18446744073709551615": FromJSON([]byte("18446744073709551615"))} {
		if v, ok := ParseNumber(text); !ok || !Equal(v, same) || v.String() != text {
			t.Errorf("%s is %q, %v", text, v, ok)
		}
	}
	for _, bad := range []string{"", "-", ".", "x", "1x", "1e", "0x1", "NaN", "1e999", "1_000", " 1"} {
		if v, ok := ParseNumber(bad); ok {
			t.Errorf("%q is %q", bad, v)
		}
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	all := func(v Value) (s string) {
		for key, e := range v.Elements {
			s += key + "=" + e.String() + ";"
		}
		return
	}
	for text, want := range map[string]string{
		` [ 1 , "a\nb", null, [2], {"x":3} ] `: "0=1;1=a\nb;2=;3=[2];4={\"x\":3};",
		`{"a" : 1, "\u0062":"", "a":2}`:        "a=1;b=;a=2;", "[]": "", "{ }": "", "5": "", `"x"`: "",
	} {
		if got := all(FromJSON([]byte(text))); got != want {
			t.Errorf("%s has the elements %q, not %q", text, got, want)
		}
	}
	n := 0
	for range List([]Value{Int(1), Int(2), Int(3)}).Elements {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Error("a loop over elements does not end early")
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"5m": "5m", "1h": "1h", "10s": "10s", "300s": "60s", "90m": "60m", "48h": "24h", "5000ms": "1000ms",
		"30d": "30d", "2w": "2w", "3mo": "3mo", "1q": "1q", "2y": "2y",
		"5min": "5m", "5mins": "5m", "5minutes": "5m", "1hr": "1h", "2hrs": "2h", "2Hours": "2h", "7msec": "7ms",
		"7milliseconds": "7ms", "3secs": "3s", "1mon": "1mo", "2months": "2mo", "1qtr": "1q", "1quarters": "1q",
		"3yrs": "3y", "1year": "1y", "2days": "2d", "2weeks": "2w", "5 m": "5m",
	} {
		v, ok := ParsePeriod(text)
		if !ok || v.String() != want || v.Kind() != PeriodKind {
			t.Errorf("%q is the period %q, %v", text, v, ok)
		}
	}
	for _, bad := range []string{"", "5", "m", "0m", "-5m", "5.5m", "5x", "5ms5", "5ss", "99999999999m", "5hs", "5ds"} {
		if v, ok := ParsePeriod(bad); ok {
			t.Errorf("%q is the period %q", bad, v)
		}
	}
	if ms, ok := must(ParsePeriod("2w")).Milliseconds(); !ok || ms != 14*86_400_000 {
		t.Errorf("2w is %d ms, %v", ms, ok)
	}
	if _, ok := must(ParsePeriod("1mo")).Milliseconds(); ok {
		t.Error("a month has a length")
	}
}

// Periods tile time: a start is its own start, the next start is behind every moment of a period, and nothing lies
// between.
func TestPeriodsTileTime(t *testing.T) {
	t.Parallel()
	for unit := millisecond; unit <= year; unit++ {
		for _, n := range []int64{1, 2, 5, 7} {
			for ms := int64(-70 * 365 * 86_400_000); ms < 90*365*86_400_000; ms += 13*86_400_000 + 12_345_678 {
				start := periodStart(ms, n, unit)
				next := following(start, n, unit)
				if start > ms || next <= ms || periodStart(start, n, unit) != start || periodStart(next, n,
					unit) != next ||
					periodStart(next-1, n, unit) != start {
					t.Fatalf("%d%s: %s lies in %s to %s", n, unit, time.UnixMilli(ms).UTC(),
						time.UnixMilli(start).UTC(), time.UnixMilli(next).UTC())
				}
			}
		}
	}
}
