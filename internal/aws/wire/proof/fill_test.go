package proof

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// exported compares what travels: not the SDK's metadata, nor the marker fields that it embeds.
var exported = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool {
		f, ok := p.Last().(cmp.StructField)
		return ok && (f.Name() == "ResultMetadata" || f.Name() == "ErrorCodeOverride" ||
			f.Name() == "noSmithyDocumentSerde" || f.Name()[0] >= 'a' && f.Name()[0] <= 'z')
	}, cmp.Ignore()),
	// In JSON a time is a number of seconds, and the SDK cuts the third decimal off its binary form: 51.363 arrives as
	// 51.362.
	cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() <= time.Millisecond }),
}

// filler makes values for every member of a structure.
type filler struct {
	random *rand.Rand
	stack  []reflect.Type
}

func newFiller(seed string) *filler {
	var key [32]byte
	copy(key[:], seed)
	return &filler{random: rand.New(rand.NewChaCha8(key))}
}

// texts hold what an encoder can get wrong.
var texts = []string{"plain", "a & b < c > d \"e\" 'f'", "tab\tnewline\nreturn\rend", "naïve ☃ \U0001F6F6",
	"back\\slash /slash", "{\"json\": [1]}", "<xml/>", "a=b&c=%20+"}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if f.deep(v.Type().Elem()) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.String:
		if values := v.MethodByName("Values"); values.IsValid() {
			if list := values.Call(nil)[0]; list.Len() > 0 {
				v.SetString(list.Index(f.random.IntN(list.Len())).String())
				return
			}
		}
		v.SetString(fmt.Sprintf("%s %d", texts[f.random.IntN(len(texts))], f.random.IntN(1000)))
	case reflect.Bool:
		v.SetBool(f.random.IntN(4) > 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(f.random.Int64N(1<<(v.Type().Bits()-1)-1) - 1<<(v.Type().Bits()-3))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.random.IntN(1<<20))/8 - 1000)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, 1+f.random.IntN(40))
			for i := range b {
				b[i] = byte(f.random.Uint32())
			}
			v.SetBytes(b)
			return
		}
		if f.deep(v.Type().Elem()) {
			return
		}
		n := 1
		if len(f.stack) < 3 {
			n = 2
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		if f.deep(v.Type().Elem()) {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(k)
			f.fill(e)
			v.SetMapIndex(k, e)
		}
	case reflect.Interface:
		variants := model.Variants(v.Type())
		if variants == nil || f.deep(v.Type()) {
			return
		}
		names := make([]string, 0, len(variants))
		for name := range variants {
			names = append(names, name)
		}
		name := names[f.random.IntN(len(names))]
		u := reflect.New(variants[name])
		f.fill(u.Elem().FieldByName("Value"))
		v.Set(u)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			t := time.UnixMilli(f.random.Int64N(4e12)).UTC()
			if f.random.IntN(2) == 0 {
				t = t.Truncate(time.Second)
			}
			v.Set(reflect.ValueOf(t))
			return
		}
		f.stack = append(f.stack, v.Type())
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Type().Field(i).IsExported() && name != "ResultMetadata" &&
				name != "ErrorCodeOverride" {
				f.fill(v.Field(i))
			}
		}
		f.stack = f.stack[:len(f.stack)-1]
	default:
		panic(fmt.Sprintf("the filler has no value for %v in %v", v.Type(), f.stack))
	}
}

// deep stops structures that contain themselves after two rounds.
func (f *filler) deep(t reflect.Type) bool {
	rounds := 0
	for _, s := range f.stack {
		if s == t {
			rounds++
		}
	}
	return rounds >= 2 || strings.Contains(t.String(), "noSmithy")
}
