package value

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// row is a value of the aggregated field and the time of its event.
type row struct {
	v  Value
	at int64
}

// constants of the aggregates that need some, for tests that run over all.
var constants = map[string]Value{"pct": Number(95), "rate": must(ParsePeriod("1m")), "histogram": Int(7)}

func must(v Value, ok bool) Value {
	if !ok {
		panic("not a period")
	}
	return v
}

func accumulator(t testing.TB, name string) (add func(Accumulator, row), fresh func() Accumulator) {
	a, ok := LookupAggregate(name)
	if !ok {
		t.Fatalf("no aggregate %s", name)
	}
	args := []Value{{}}
	var consts []Value
	if len(a.Constants) > 0 {
		consts = []Value{constants[a.Name]}
		if err := a.Check(consts); err != nil {
			t.Fatal(err)
		}
		args = append(args, consts...)
	}
	return func(acc Accumulator, r row) {
		args[0] = r.v
		acc.Add(args, r.at)
	}, func() Accumulator { return a.New(consts) }
}

func TestAggregates(t *testing.T) {
	t.Parallel()
	list := FromJSON([]byte("[1]"))
	rows := func(vs ...Value) (rs []row) {
		for i, v := range vs {
			rs = append(rs, row{v, int64(i)})
		}
		return
	}
	cases := []struct {
		name string
		rows []row
		want string
	}{
		{"avg", nil, none}, {"avg", rows(String("x"), Value{}, list), none},
		{"avg", rows(Int(1), String("2"), Value{}, String("x")), "1.5"}, {"avg", rows(Bool(true), Bool(false)), "0.5"},
		{"avg", rows(Int(math.MaxInt64), Int(math.MaxInt64)), "9223372036854776000"},
		{"count", nil, "0"}, {"count", rows(Int(1), Value{}, String(""), list), "3"},
		{"count_distinct", nil, "0"}, {"count_distinct", rows(Int(1), String("1"), FromJSON([]byte("1.0")),
			String("1.0"), Value{}, list, String(""), String("a")), "4"},
		{"max", nil, none}, {"max", rows(String("9"), Int(10), String("zzz")), "10"},
		{"max", rows(String("a10"), String("a9")), "a10"}, {"max", rows(Value{}, list), none},
		{"max", rows(FromJSON([]byte("9007199254740993")), Int(9007199254740992)), "9007199254740993"},
		{"max", rows(Time(1000), Time(2000)), "1970-01-01 00:00:02.000"}, {"max", rows(Bool(true), Bool(false)), "1"},
		{"min", nil, none}, {"min", rows(String("9"), Int(10), String("-")), "9"},
		{"min", rows(String("b"), String("a")), "a"}, {"min", rows(Number(-1e300), Int(math.MinInt64)),
			Number(-1e300).String()},
		{"pct", nil, none}, {"pct", rows(String("x")), none}, {"pct", rows(Int(5)), "5"},
		{"pct", rows(Int(1), Int(2), Int(3), Int(4)), "4"}, {"pct", rows(Number(-1.5), String("-2.5")), "-1.5"},
		{"stddev", nil, none}, {"stddev", rows(Int(5)), "0"}, {"stddev", rows(Int(2), Int(4)), "1.4142135623730951"},
		{"stddev", rows(Int(1e15), Int(1e15+1), Int(1e15+2)), "1"},
		{"stddev", rows(Number(0.1), Number(0.1), Number(0.1)), "0"}, {"stddev", rows(Number(1e200), Number(-1e200)),
			none},
		{"sum", nil, none}, {"sum", rows(String("x"), list), none}, {"sum", rows(Int(1), String("2.5"), String("x")),
			"3.5"}, {"sum", rows(Number(0.1), Number(0.2), Number(0.3)), "0.6"},
		{"sum", rows(Int(math.MaxInt64), Int(1), Int(-1)), "9223372036854775807"},
		{"sum", rows(Int(math.MaxInt64), Int(math.MaxInt64)), "18446744073709552000"},
		{"sum", rows(Int(math.MinInt64), Int(math.MinInt64), Number(0.5)), "-18446744073709552000"},
		{"sum", rows(Number(1e16), Number(1), Number(-1e16)), "1"}, {"sum", rows(Number(1e308), Number(1e308)), none},
		{"sum", rows(Bool(true), Bool(true)), "2"},
		{"earliest", nil, none}, {"earliest", []row{{String("b"), 5}, {String("a"), 3}, {Value{}, 1}, {list, 2}}, "a"},
		{"earliest", []row{{String("b"), 5}, {String("a"), 5}}, "a"},
		{"latest", nil, none}, {"latest", []row{{String("b"), 5}, {String("a"), 3}, {Value{}, 9}}, "b"},
		{"latest", []row{{String("b"), 5}, {String("a"), 5}}, "b"}, {"latest", []row{{Int(1), -5}, {Int(2), -9}}, "1"},
		{"sortsFirst", nil, none}, {"sortsFirst", rows(Int(1), String("b"), String("a"), Value{}, list), "a"},
		{"sortsFirst", rows(Int(10), Int(9)), "9"},
		{"sortsLast", nil, none}, {"sortsLast", rows(String("b"), Int(1)), "1"},
		{"sortsLast", rows(String("b2"), String("b10")), "b10"},
		{"rate", nil, none}, {"rate", rows(Int(1)), none},
		{"rate", []row{{Int(10), 0}, {Int(40), 30_000}, {String("x"), 90_000}}, "60"},
		{"rate", []row{{Int(10), 5}, {Int(40), 5}}, none},
		{"rate", []row{{Int(40), 60_000}, {Int(10), 0}, {Int(99), 30_000}}, "30"},
		{"count_over_time", rows(Int(1), Value{}), "1"}, {"sum_over_time", rows(Int(1), Int(2)), "3"},
		{"histogram", nil, none}, {"histogram", rows(Int(5), Int(5)), `{"5..5":2}`},
		{"histogram", rows(Int(0), Int(7), Number(6.9), Int(3)),
			`{"0..1":1,"1..2":0,"2..3":0,"3..4":1,"4..5":0,"5..6":0,"6..7":2}`},
		{"histogram", rows(Number(-1e308), Number(1e308)), fmt.Sprintf(`{"%s..%s":2}`, Number(-1e308), Number(1e308))},
	}
	for _, c := range cases {
		add, fresh := accumulator(t, c.name)
		acc := fresh()
		for _, r := range c.rows {
			add(acc, r)
		}
		got := none
		if v := acc.Result(); !v.IsNull() {
			got = v.String()
		}
		if got != c.want {
			t.Errorf("%s of %v is %s, not %s", c.name, c.rows, got, c.want)
		}
		if acc.Bytes() <= 0 {
			t.Errorf("%s holds %d bytes", c.name, acc.Bytes())
		}
	}
	for name, bad := range map[string][]Value{
		"pct": {{}, Int(-1), Int(101), String("x")}, "rate": {{}, Int(5), String("x"), must(ParsePeriod("1mo"))},
		"histogram": {{}, Int(0), Int(1001), Number(1.5)},
	} {
		a, _ := LookupAggregate(name)
		for _, v := range bad {
			if err := a.Check([]Value{v}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s takes %q: %v", name, v, err)
			}
		}
	}
	a, _ := LookupAggregate("COUNT")
	all := a.New(nil)
	all.Add(nil, 0)
	all.Add([]Value{}, 0)
	if all.Result().String() != "2" {
		t.Errorf("count() is %s", all.Result())
	}
}

// mixed makes rows of all kinds; some of many different values, so that approximations are reached.
func mixed(r *rand.Rand, n int) []row {
	rows := make([]row, n)
	for i := range rows {
		var v Value
		switch r.IntN(12) {
		case 0:
		case 1:
			v = String(fmt.Sprint("text", r.IntN(n)))
		case 2:
			v = FromJSON([]byte(`{"a":1}`))
		case 3:
			v = Bool(r.IntN(2) == 0)
		case 4:
			v = String(fmt.Sprint(r.IntN(1000)))
		case 5:
			v = Int(r.Int64() - r.Int64())
		case 6:
			v = Number(math.Ldexp(r.Float64()-0.5, r.IntN(600)-300))
		case 7:
			v = Time(r.Int64N(1 << 40))
		default:
			v = Number(math.Round(r.ExpFloat64()*1e6) / 1e3)
		}
		rows[i] = row{v, r.Int64N(1000)}
	}
	return rows
}

// TestOrderDoesNotShow gives the same rows to one accumulator, and in other orders to several that are merged in some
// order.
func TestOrderDoesNotShow(t *testing.T) {
	t.Parallel()
	for seed, n := range []int{0, 1, 2, 10, 500, 3000, 20_000} {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		rows := mixed(r, n)
		for _, name := range AggregateNames() {
			add, fresh := accumulator(t, name)
			whole := fresh()
			for _, row := range rows {
				add(whole, row)
			}
			want := whole.Result()
			for range 3 {
				shuffled := slices.Clone(rows)
				r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				parts := make([]Accumulator, 1+r.IntN(6))
				for i := range parts {
					parts[i] = fresh()
				}
				for _, row := range shuffled {
					i := r.IntN(len(parts)) * r.IntN(len(parts)) / len(parts) // uneven
					add(parts[i], row)
					if r.IntN(1000) == 0 {
						parts[i].Result() // may be asked at any time
					}
				}
				for len(parts) > 1 {
					i := r.IntN(len(parts) - 1)
					parts[i].Merge(parts[i+1])
					parts = slices.Delete(parts, i+1, i+2)
				}
				if got := parts[0].Result(); got != want {
					t.Errorf("%s of %d rows is %q in one order and %q in another", name, n, want, got)
				}
			}
		}
	}
}

func TestAccumulatorsKeepNothingOfTheMessage(t *testing.T) {
	t.Parallel()
	for _, name := range AggregateNames() {
		add, fresh := accumulator(t, name)
		acc, other := fresh(), fresh()
		message := []byte(`{"a":"text 1","b":1234567}`)
		d := NewDocument(ParsePath("a"), ParsePath("b"))
		if !d.Parse(message) {
			t.Fatal("not JSON")
		}
		add(acc, row{d.At(0), 1})
		add(other, row{d.At(1), 2})
		acc.Merge(other)
		before := strings.Clone(acc.Result().String())
		for i := range message {
			message[i] = '#'
		}
		if after := acc.Result().String(); after != before {
			t.Errorf("%s was %q and is %q when the message is gone", name, before, after)
		}
	}
}

func TestApproximationsAreAsCloseAsDocumented(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	add, fresh := accumulator(t, "count_distinct")
	for _, n := range []int{1, 100, exactDistinct, exactDistinct + 1, 50_000, 300_000} {
		acc := fresh()
		for i := range n {
			add(acc, row{v: Int(int64(i) * 7919)})
		}
		for range 1000 { // again
			add(acc, row{v: Int(r.Int64N(int64(n)) * 7919)})
		}
		got, _ := acc.Result().AsNumber()
		if wrong := math.Abs(got-float64(n)) / float64(n); n <= exactDistinct && wrong != 0 || wrong > 0.03 {
			t.Errorf("%d distinct values are counted as %v", n, got)
		}
		if acc.Bytes() > 200<<10 {
			t.Errorf("%d distinct values take %d bytes", n, acc.Bytes())
		}
	}
	for _, n := range []int{exactValues, exactValues + 1, 100_000} {
		values := make([]float64, n)
		acc := &distribution{}
		for i := range values {
			values[i] = math.Exp(r.NormFloat64() * 3)
			if i%10 == 0 {
				values[i] = -values[i]
			}
			acc.add(Number(values[i]))
		}
		slices.Sort(values)
		for _, p := range []float64{0, 0.1, 1, 5, 25, 50, 75, 90, 95, 99, 99.9, 100} {
			got, _ := acc.percentile(p).AsNumber()
			// Between the neighbors of the rank, widened by the sketch's error.
			rank := p / 100 * float64(n-1)
			low, high := values[int(math.Floor(rank))], values[min(int(math.Ceil(rank))+1, n-1)]
			if got < low-accuracy*1.01*math.Abs(low) || got > high+accuracy*1.01*math.Abs(high) {
				t.Errorf("the %v%% of %d values is %v, not between %v and %v", p, n, got, low, high)
			}
		}
		if acc.memoryBytes() > 80<<10 {
			t.Errorf("%d values take %d bytes", n, acc.memoryBytes())
		}
	}
}

func BenchmarkAggregates(b *testing.B) {
	rows := mixed(rand.New(rand.NewPCG(1, 2)), 1000)
	for _, name := range AggregateNames() {
		b.Run(name, func(b *testing.B) {
			add, fresh := accumulator(b, name)
			acc := fresh()
			i := 0
			for b.Loop() {
				add(acc, rows[i%len(rows)])
				i++
			}
		})
	}
}
