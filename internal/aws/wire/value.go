package wire

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// malformed is an input that cannot be read as what the schema says; each protocol gives it a code.
type malformed struct{ message string }

func (m *malformed) Error() string { return m.message }

func malformedf(format string, args ...any) error {
	return &malformed{fmt.Sprintf(format, args...)}
}

// settable returns the value to set for a member: the target of a pointer, made if need be, or v itself.
func settable(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return v.Elem()
	}
	return v
}

// parseText sets a scalar from its text: a parameter of a query, a header, a label.
func parseText(pl *plan, format timeFormat, text string, v reflect.Value) error {
	v = settable(v)
	switch pl.kind {
	case kindString:
		v.SetString(text)
	case kindBool:
		switch strings.ToLower(text) {
		case "true", "1":
			v.SetBool(true)
		case "false", "0":
			v.SetBool(false)
		default:
			return malformedf("Invalid boolean value %s", text)
		}
	case kindInt:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return malformedf("Invalid integer value %s", text)
		}
		v.SetInt(n)
	case kindFloat:
		f, err := parseFloat(text, v.Type().Bits())
		if err != nil {
			return err
		}
		v.SetFloat(f)
	case kindBlob:
		b, err := decodeBase64(text)
		if err != nil {
			return err
		}
		v.SetBytes(b)
	case kindTime:
		t, err := parseTime(text, format)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(t))
	default:
		return malformedf("Unexpected text where a structure, list or map belongs: %q", text)
	}
	return nil
}

// parseFloat reads a number. No member of AWS's APIs means anything by NaN or an infinity, and no handler compares with
// them as it would with numbers.
func parseFloat(text string, bits int) (float64, error) {
	f, err := strconv.ParseFloat(text, bits)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, malformedf("Invalid floating-point value %s", text)
	}
	return f, nil
}

func decodeBase64(text string) ([]byte, error) {
	// Some clients wrap lines or leave out the padding; AWS reads both.
	text = strings.NewReplacer("\n", "", "\r", "", " ", "").Replace(text)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, malformedf("Invalid Base64 data: %v", err)
	}
	return b, nil
}

// parseTime reads a timestamp in the wanted format; without one it takes any that AWS clients send.
func parseTime(text string, format timeFormat) (time.Time, error) {
	if format == formatHTTPDate || format == formatDefault {
		if t, err := http.ParseTime(text); err == nil {
			return t.UTC(), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC(), nil
	}
	// Without an offset it is UTC: what EC2's users write in --start-time.
	if t, err := time.Parse("2006-01-02T15:04:05", text); err == nil {
		return t, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return epochTime(f)
	}
	return time.Time{}, malformedf("Invalid timestamp %s", text)
}

// epochTime turns seconds into a time, to the millisecond as Smithy has it.
func epochTime(seconds float64) (time.Time, error) {
	const limit = 253402300800 // year 10000
	if !(math.Abs(seconds) < limit) {
		return time.Time{}, malformedf("Invalid timestamp %v", seconds)
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
}

// appendText writes a scalar as text, the inverse of parseText.
func appendText(b []byte, pl *plan, format timeFormat, v reflect.Value) []byte {
	switch pl.kind {
	case kindString:
		return append(b, v.String()...)
	case kindBool:
		return strconv.AppendBool(b, v.Bool())
	case kindInt:
		return strconv.AppendInt(b, v.Int(), 10)
	case kindFloat:
		return appendFloat(b, v.Float(), v.Type().Bits())
	case kindBlob:
		return base64.StdEncoding.AppendEncode(b, v.Bytes())
	case kindTime:
		return appendTime(b, v.Interface().(time.Time), format)
	}
	panic(fmt.Sprintf("wire: %v is not a scalar", pl.typ))
}

func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

func appendTime(b []byte, t time.Time, format timeFormat) []byte {
	t = t.UTC()
	switch format {
	case formatEpoch:
		return appendEpoch(b, t)
	case formatHTTPDate:
		return t.AppendFormat(b, http.TimeFormat)
	}
	if t.Nanosecond() == 0 {
		return t.AppendFormat(b, "2006-01-02T15:04:05Z")
	}
	return t.AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// appendEpoch writes seconds with at most three decimals, as AWS does.
func appendEpoch(b []byte, t time.Time) []byte {
	ms := t.UnixMilli()
	if ms < 0 {
		return strconv.AppendFloat(b, float64(ms)/1000, 'f', -1, 64)
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if r := ms % 1000; r != 0 {
		s := strconv.Itoa(int(r))
		s = strings.TrimRight("000"[len(s):]+s, "0")
		b = append(b, '.')
		b = append(b, s...)
	}
	return b
}

// indirect follows a member's pointer; ok is false for nothing to send.
func indirect(v reflect.Value) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v, false
		}
		if v.Kind() == reflect.Pointer {
			return v.Elem(), true
		}
	case reflect.Slice, reflect.Map:
		return v, !v.IsNil()
	case reflect.String:
		// A member without a pointer is an enumeration or a primitive of an old API; the SDK does not send their zero.
		return v, v.Len() > 0
	}
	return v, true
}
