package value

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSortOrderIsThatOfTheAWSPage(t *testing.T) {
	t.Parallel()
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Sort.html
	want := []string{"!:", "#", "*%04", "0#", "5A", "111A", "2345_", "@", "@_", "A", "A9876fghj", "a12345hfh", "0",
		"01", "1", "2", "3"}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, func(a, b string) int { return Compare(String(a), String(b)) })
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// ordering are values of all kinds in the order of sort; those of one line are equal.
var ordering = [][]Value{
	{{}, FromJSON([]byte("null"))},
	{FromJSON([]byte(`[1]`))},
	{FromJSON([]byte(`{"a":1}`))},
	{String("")},
	{String("1.2.3")},
	{String("1e3")}, // a mix of digits and another character
	{String("10m")},
	{String("a"), String("a")},
	{String("a2")},
	{String("a10")},
	{String("true")},
	{String("ä")},
	{Int(math.MinInt64)},
	{Number(-1.5), String("-1.5")},
	{Int(0), Bool(false), String("0"), Number(math.Copysign(0, -1))},
	{String("00")},
	{Int(1), Bool(true), String("1"), FromJSON([]byte("1"))},
	{FromJSON([]byte("1.0")), String("1.0")},
	{String("9")},
	{Int(10)},
	{Time(1000)},
	{Int(1 << 53)},
	{Int(1<<53 + 1), String("9007199254740993")},
	{FromJSON([]byte("18446744073709551614"))},
	{FromJSON([]byte("18446744073709551615"))},
	{Number(1e300)},
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for i, as := range ordering {
		for j, bs := range ordering {
			for _, a := range as {
				for _, b := range bs {
					want := 0
					if i < j {
						want = -1
					} else if i > j {
						want = 1
					}
					if got := Compare(a, b); got != want {
						t.Errorf("Compare(%v %q, %v %q) is %d, not %d", a.Kind(), a, b.Kind(), b, got, want)
					}
				}
			}
		}
	}
}

func TestEqualAndRelation(t *testing.T) {
	t.Parallel()
	list := FromJSON([]byte("[1]"))
	cases := []struct {
		a, b  Value
		equal bool
		order int // of Relation
		ok    bool
	}{
		{String("a"), String("a"), true, 0, true}, {String("a"), String("A"), false, 1, true},
		{String("a"), String("b"), false, -1, true},
		{Int(200), String("200"), true, 0, true}, {Int(200), String("200.0"), true, 0, true},
		{Int(200), String("2e2"), true, 0, true}, {String("200"), String("200.0"), true, 0, true},
		{String("200"), String("2e2"), false, -1, true},
		{Int(9), Int(10), false, -1, true}, {String("9"), String("10"), false, -1, true},
		{String("9"), Int(10), false, -1, true}, {String("9a"), String("10a"), false, 1, true},
		{Int(9), String("10a"), false, 1, true},
		{Bool(true), Int(1), true, 0, true}, {Bool(true), String("1"), true, 0, true},
		{Bool(true), String("true"), true, 0, true}, {Bool(true), String("TRUE"), true, 0, true},
		{Bool(false), String("false"), true, 0, true}, {Bool(false), String("true"), false, -1, true},
		{Bool(true), Bool(true), true, 0, true}, {Bool(true), Bool(false), false, 1, true},
		{Bool(true), Int(2), false, -1, true},
		{String("true"), String("TRUE"), false, 1, true}, {String("true"), Int(1), false, 1, true},
		{FromJSON([]byte("9007199254740993")), Int(9007199254740993), true, 0, true},
		{FromJSON([]byte("9007199254740993")), Int(9007199254740992), false, 1, true},
		{FromJSON([]byte("18446744073709551615")), String("18446744073709551614"), false, 1, true},
		{String("9007199254740993.0"), Int(9007199254740993), true, 0, true},
		{FromJSON([]byte("1e20")), FromJSON([]byte("100000000000000000000")), true, 0, true},
		{Time(1000), Int(1000), true, 0, true}, {Time(1000), Time(2000), false, -1, true},
		{Value{}, Value{}, false, 0, false}, {Value{}, String(""), false, 0, false}, {Value{}, Int(0), false, 0, false},
		{list, list, false, 0, false}, {list, String("[1]"), false, 0, false}, {FromJSON([]byte("{}")), Value{}, false,
			0, false},
		{String(""), String(""), true, 0, true}, {String(""), Int(0), false, -1, true}, {String("-"), Int(0), false, -1,
			true}, {String("0"), Number(math.Copysign(0, -1)), true, 0, true},
	}
	for _, c := range cases {
		for _, swapped := range []bool{false, true} {
			a, b, order := c.a, c.b, c.order
			if swapped {
				a, b, order = b, a, -order
			}
			if got := Equal(a, b); got != c.equal {
				t.Errorf("Equal(%v %q, %v %q) is %v", a.Kind(), a, b.Kind(), b, got)
			}
			got, ok := Relation(a, b)
			if ok != c.ok || got != order && !(c.equal && c.a.Kind() != c.b.Kind()) {
				t.Errorf("Relation(%v %q, %v %q) is %d, %v", a.Kind(), a, b.Kind(), b, got, ok)
			}
		}
	}
}

func TestEqualText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"aws-node": true, "": true, "12a": true, "12": false, "1e5": false,
		"-1.5": false, "true": false, "FALSE": false, "1.2.3": true} {
		if _, ok := EqualText(String(text)); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
	for _, v := range []Value{{}, Int(1), Bool(true), Time(1), FromJSON([]byte("[]"))} {
		if s, ok := EqualText(v); ok {
			t.Errorf("%v: %q", v.Kind(), s)
		}
	}
}

func TestTruth(t *testing.T) {
	t.Parallel()
	for _, v := range []Value{Bool(true), Int(1), Int(-1), Number(0.5), String("1"), String("true"), String("TRUE"),
		Time(5)} {
		if !v.Truth() {
			t.Errorf("%v %q is false", v.Kind(), v)
		}
	}
	for _, v := range []Value{{}, Bool(false), Int(0), String("0"), String(""), String("false"), String("x"),
		FromJSON([]byte("[1]")), FromJSON([]byte("{}"))} {
		if v.Truth() {
			t.Errorf("%v %q is true", v.Kind(), v)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<14)
	same := [][2]Value{{Int(1), String("1")}, {Int(1), Bool(true)}, {FromJSON([]byte("1.0")), Int(1)},
		{FromJSON([]byte("-0")), Int(0)}, {FromJSON([]byte("1e2")), Int(100)}, {Value{}, Value{}},
		{String(long), String(long)}, {Time(5), Time(5)}}
	for _, p := range same {
		if a, b := AppendKey(nil, p[0]), AppendKey(nil, p[1]); string(a) != string(b) {
			t.Errorf("%v %q and %v %q have the keys %q and %q", p[0].Kind(), p[0], p[1].Kind(), p[1], a, b)
		}
	}
	different := []Value{{}, String(""), String("1"), String("1.0"), String("01"), String("true"), Int(0), Int(1 << 53),
		Int(1<<53 + 1), FromJSON([]byte("18446744073709551614")), FromJSON([]byte("18446744073709551615")),
		String("\x00"), String(long), String(long + "y"), String(long[1:]), Time(0), Time(1), FromJSON([]byte("[1]"))}
	for _, size := range []int{62, 63, 64, 125, 126, 127, 128, 129, 1<<14 - 2, 1<<14 - 1, 1 << 14, 1<<14 + 1, 1 << 21} {
		different = append(different, String(strings.Repeat("z", size)))
	}
	seen := map[string]Value{}
	for _, a := range different {
		for _, b := range different {
			key := string(AppendKey(AppendKey([]byte("kept"), a), b))
			if !strings.HasPrefix(key, "kept") {
				t.Fatal("AppendKey does not append")
			}
			if _, ok := seen[key]; ok {
				t.Errorf("a key of (%.20q, %.20q) is not unique", a, b)
			}
			seen[key] = a
		}
	}
}

// fuzzed makes a value of any kind from a string.
func fuzzed(s string) Value {
	if s == "" {
		return Value{}
	}
	switch rest := s[1:]; s[0] % 5 {
	case 0:
		return String(rest)
	case 1:
		return FromJSON([]byte(rest))
	case 2:
		f, _ := String(rest).AsNumber()
		return Number(f)
	case 3:
		return Bool(len(rest)%2 == 0)
	default:
		n, _ := String(rest).AsInt()
		return Time(n % lastMoment)
	}
}

func FuzzCompare(f *testing.F) {
	for _, as := range ordering {
		f.Add("0"+as[0].String(), "110", "29")
	}
	f.Add("59007199254740993.0", "59007199254740992", "19007199254740993")
	f.Add("5"+strings.Repeat("0", 70)+"9007199254740993", "59007199254740992", "19007199254740993")
	f.Add("51a", "5010", "5a01b2")
	f.Fuzz(func(t *testing.T, x, y, z string) {
		a, b, c := fuzzed(x), fuzzed(y), fuzzed(z)
		ab, bc, ac := Compare(a, b), Compare(b, c), Compare(a, c)
		if Compare(a, a) != 0 || Compare(b, a) != -ab {
			t.Fatalf("not antisymmetric: %v %q, %v %q: %d, %d", a.Kind(), a, b.Kind(), b, ab, Compare(b, a))
		}
		if ab <= 0 && bc <= 0 && (ac > 0 || ac == 0 && (ab < 0 || bc < 0)) {
			t.Fatalf("not transitive: %v %q, %v %q, %v %q: %d %d %d", a.Kind(), a, b.Kind(), b, c.Kind(), c, ab, bc, ac)
		}
		if ab == 0 && a.String() != b.String() {
			t.Fatalf("%q and %q are shown differently and sort alike", a, b)
		}
		if Equal(a, b) != Equal(b, a) {
			t.Fatalf("Equal is not symmetric: %q, %q", a, b)
		}
		r, ok := Relation(a, b)
		back, _ := Relation(b, a)
		if r != -back || ok && r == 0 && !Equal(a, b) {
			t.Fatalf("Relation(%q, %q) is %d, back %d", a, b, r, back)
		}
		if s, ok := EqualText(a); ok && Equal(a, b) && b.String() != s {
			t.Fatalf("%q equals %v %q", s, b.Kind(), b)
		}
		if string(AppendKey(nil, a)) == string(AppendKey(nil, b)) && a.Kind() == StringKind && b.Kind() == StringKind &&
			a.String() != b.String() {
			t.Fatalf("%q and %q have one key", a, b)
		}
		// What is computed is a number that is shown as one.
		for _, v := range []Value{Add(a, b), Sub(a, b), Mul(a, b), Div(a, b), Mod(a, b), Pow(a, b), Neg(a)} {
			if v.IsNull() {
				continue
			}
			back := FromJSON([]byte(v.String()))
			if v.Kind() != NumberKind || compareNumbers(v, back) != 0 {
				t.Fatalf("%q computes with %q to %q, read back as %q", a, b, v, back)
			}
		}
	})
}

// The time that other processes take is not in these: see perCPU.
func BenchmarkCompare(b *testing.B) {
	for name, pair := range map[string][2]Value{
		"strings": {String("aws-node"), String("aws-nodes")}, "numbers": {Int(200), FromJSON([]byte("201"))},
		"numeric strings": {String("200"), String("201")}, "number and string": {Int(200), String("200")},
	} {
		b.Run("Equal/"+name, func(b *testing.B) {
			perCPU(b, nil, func() { Equal(pair[0], pair[1]) })
		})
		b.Run("Compare/"+name, func(b *testing.B) {
			perCPU(b, nil, func() { Compare(pair[0], pair[1]) })
		})
	}
}
