package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// rpcCBOR is rpcv2Cbor: everything is POST /service/<service>/operation/<operation>, input and output are CBOR.
// https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html
type rpcCBOR struct{}

// isCBOR reports whether a request is one of rpcv2Cbor.
func isCBOR(r *request) bool { return r.Header.Get("Smithy-Protocol") == "rpc-v2-cbor" }

// cutOperation returns the service and the operation that a path of rpcv2Cbor names.
func cutOperation(path string) (service, operation string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/service/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/operation/")
}

func (rpcCBOR) operation(m *Mux, service *Service, r *request) (*operation, error) {
	if prefix, name, ok := cutOperation(r.URL.Path); ok && prefix == service.TargetPrefix {
		if op := m.operation(service, name); op != nil {
			return op, nil
		}
	}
	return nil, unknownOperation(service, r.URL.Path)
}

// cborReader reads what clients send, within bounds like those of JSON bodies.
var cborReader = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: maxDepth, MaxArrayElements: maxNodes, MaxMapPairs: maxNodes,
		DefaultMapType: reflect.TypeFor[map[string]any](), BignumTag: cbor.BignumTagForbidden,
	}.DecMode()
	if err != nil {
		panic(fmt.Sprintf("wire: %v", err))
	}
	return mode
}()

func (rpcCBOR) decodeRequest(op *operation, r *request, in reflect.Value) error {
	if len(r.body) == 0 {
		return nil
	}
	if countCBOR(r.body) > maxNodes {
		return serialization(malformedf("The request body has more than %d values", maxNodes))
	}
	var value any
	if err := cborReader.Unmarshal(r.body, &value); err != nil {
		return serialization(malformedf("The request body is not CBOR: %v", err))
	}
	return serialization(decodeCBOR(op.input, value, in))
}

func (rpcCBOR) decodedSize(r *request) int64 {
	return valueMemory * int64(min(countCBOR(r.body), maxNodes))
}

// countCBOR returns how many values a CBOR text has at most, keys and parts of texts included. Each is a head, after
// which the text or number of it follows, and nothing else is between them.
func countCBOR(body []byte) (n int) {
	for len(body) > 0 {
		n++
		major, minor := body[0]>>5, body[0]&31
		body = body[1:]
		argument := uint64(minor)
		if minor >= 24 && minor <= 27 {
			size := 1 << (minor - 24)
			if len(body) < size {
				return n
			}
			var wide [8]byte
			copy(wide[8-size:], body[:size])
			argument, body = binary.BigEndian.Uint64(wide[:]), body[size:]
		}
		if (major == 2 || major == 3) && minor < 28 { // bytes and text
			body = body[min(argument, uint64(len(body))):]
		}
	}
	return n
}

// decodeCBOR sets v from a value that was read. Members that the schema does not know are ignored, as in JSON.
func decodeCBOR(pl *plan, value any, v reflect.Value) error {
	if value == nil {
		return nil
	}
	wrong := func() error { return malformedf("Expected %s where the request has %T", cborNames[pl.kind], value) }
	switch pl.kind {
	case kindStruct:
		members, ok := value.(map[string]any)
		if !ok {
			return wrong()
		}
		v = settable(v)
		for _, f := range pl.fields {
			if member, ok := members[f.name]; ok && f.plan.kind != kindEventStream {
				if err := decodeCBOR(f.plan, member, v.Field(f.index)); err != nil {
					return err
				}
			}
		}
		return nil
	case kindUnion:
		members, ok := value.(map[string]any)
		if !ok {
			return wrong()
		}
		for _, variant := range pl.variants {
			member := members[variant.name]
			if member == nil {
				continue
			}
			if !v.IsNil() {
				return malformedf("A union has exactly one member; found more")
			}
			u := reflect.New(variant.typ)
			if err := decodeCBOR(variant.plan, member, u.Elem().FieldByName("Value")); err != nil {
				return err
			}
			v.Set(u)
		}
		return nil
	case kindList:
		elements, ok := value.([]any)
		if !ok {
			return wrong()
		}
		list := reflect.MakeSlice(v.Type(), len(elements), len(elements))
		for i, element := range elements {
			if err := decodeCBOR(pl.elem, element, list.Index(i)); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	case kindMap:
		entries, ok := value.(map[string]any)
		if !ok {
			return wrong()
		}
		m := reflect.MakeMapWithSize(v.Type(), len(entries))
		for key, entry := range entries {
			e := reflect.New(v.Type().Elem()).Elem()
			if err := decodeCBOR(pl.elem, entry, e); err != nil {
				return err
			}
			m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
		}
		v.Set(m)
		return nil
	}
	if !setCBOR(pl.kind, value, settable(v)) {
		return wrong()
	}
	return nil
}

// cborNames are what messages call values.
var cborNames = map[kind]string{kindString: "a string", kindBool: "a boolean", kindInt: "an integer",
	kindFloat: "a number", kindBlob: "bytes", kindTime: "a timestamp", kindList: "a list", kindMap: "a map",
	kindStruct: "a structure", kindUnion: "a union"}

// setCBOR sets a scalar, and reports whether the value is one of its kind.
func setCBOR(k kind, value any, v reflect.Value) bool {
	switch x := value.(type) {
	case string:
		if k == kindString {
			v.SetString(x)
			return true
		}
	case bool:
		if k == kindBool {
			v.SetBool(x)
			return true
		}
	case []byte:
		if k == kindBlob {
			v.SetBytes(x)
			return true
		}
	case time.Time:
		if k == kindTime {
			t, err := epochTime(float64(x.UnixMilli()) / 1000)
			v.Set(reflect.ValueOf(t))
			return err == nil
		}
	case uint64:
		return x <= math.MaxInt64 && setCBOR(k, int64(x), v)
	case int64:
		switch {
		case k == kindInt && !v.OverflowInt(x):
			v.SetInt(x)
			return true
		case k == kindFloat:
			v.SetFloat(float64(x))
			return true
		}
	case float64:
		switch {
		case k == kindFloat && !math.IsNaN(x) && !math.IsInf(x, 0):
			v.SetFloat(x)
			return true
		case k == kindInt && x == math.Trunc(x) && math.Abs(x) <= 1<<53 && !v.OverflowInt(int64(x)):
			v.SetInt(int64(x))
			return true
		}
	}
	return false
}

func (rpcCBOR) encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) (
	[]byte, int) {
	setCBORHeaders(header)
	return appendCBORMembers(b, op.output, out, op.lists), http.StatusOK
}

func setCBORHeaders(header http.Header) {
	header.Set("Content-Type", "application/cbor")
	header.Set("Smithy-Protocol", "rpc-v2-cbor")
}

func (rpcCBOR) encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte {
	setCBORHeaders(header)
	if service.queryCompatible && r.Header.Get("X-Amzn-Query-Mode") == "true" {
		header.Set("X-Amzn-Query-Error", f.queryCode()+";"+f.faultOf("Sender", "Receiver"))
	}
	name := f.code
	if f.modeled != nil {
		name = "com.amazonaws." + service.Name + "#" + name
	}
	b = append(b, cborMap|cborIndefinite)
	b = appendCBORText(appendCBORText(b, "__type"), name)
	if f.modeled == nil || f.message != "" && f.plan.byName["message"] == nil && f.plan.byName["Message"] == nil {
		b = appendCBORText(appendCBORText(b, "message"), f.message)
	}
	if f.modeled != nil {
		members := appendCBORMembers(nil, f.plan, f.value, false)
		return append(b, members[1:]...) // which ends the map
	}
	return append(b, cborBreak)
}

// Major types in their place in a head, and other heads.
const (
	cborUint, cborNegative, cborBytes, cborText, cborList, cborMap, cborTag = 0 << 5, 1 << 5, 2 << 5, 3 << 5, 4 << 5,
		5 << 5, 6 << 5
	cborFalse, cborTrue, cborNull, cborFloat, cborDouble, cborBreak = 0xf4, 0xf5, 0xf6, 0xfa, 0xfb, 0xff
	cborIndefinite                                                  = 31
	cborEpoch                                                       = 1 // the tag of timestamps
)

// appendCBORHead writes the head of a value: its major type and its argument.
func appendCBORHead(b []byte, major byte, argument uint64) []byte {
	switch {
	case argument < 24:
		return append(b, major|byte(argument))
	case argument <= math.MaxUint8:
		return append(b, major|24, byte(argument))
	case argument <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(argument))
	case argument <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(argument))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), argument)
}

// appendCBORText writes a text. Bytes that are not UTF-8 become U+FFFD, as in JSON.
func appendCBORText(b []byte, s string) []byte {
	s = strings.ToValidUTF8(s, "\ufffd")
	return append(appendCBORHead(b, cborText, uint64(len(s))), s...)
}

// appendCBORMembers writes a structure as a map of its members that have a value; with lists, nil lists as empty ones.
func appendCBORMembers(b []byte, pl *plan, v reflect.Value, lists bool) []byte {
	b = append(b, cborMap|cborIndefinite)
	for _, f := range pl.fields {
		value := v.Field(f.index)
		_, ok := indirect(value)
		switch {
		case f.plan.kind == kindEventStream:
		case ok:
			b = appendCBOR(appendCBORText(b, f.name), f.plan, value)
		case lists && f.plan.kind == kindList:
			b = appendCBORHead(appendCBORText(b, f.name), cborList, 0)
		}
	}
	return append(b, cborBreak)
}

// appendCBOR writes a value. A nil list inside a list is null.
func appendCBOR(b []byte, pl *plan, v reflect.Value) []byte {
	v, ok := indirect(v)
	if !ok && v.Kind() != reflect.String {
		return append(b, cborNull)
	}
	switch pl.kind {
	case kindStruct:
		return appendCBORMembers(b, pl, v, false)
	case kindList:
		b = appendCBORHead(b, cborList, uint64(v.Len()))
		for i := range v.Len() {
			b = appendCBOR(b, pl.elem, v.Index(i))
		}
		return b
	case kindMap:
		b = appendCBORHead(b, cborMap, uint64(v.Len()))
		for _, key := range sortedKeys(v) {
			b = appendCBOR(appendCBORText(b, key.String()), pl.elem, v.MapIndex(key))
		}
		return b
	case kindUnion:
		variant, value := pl.variantOf(v)
		if variant == nil {
			return appendCBORHead(b, cborMap, 0)
		}
		return appendCBOR(appendCBORText(appendCBORHead(b, cborMap, 1), variant.name), variant.plan, value)
	case kindBool:
		if v.Bool() {
			return append(b, cborTrue)
		}
		return append(b, cborFalse)
	case kindInt:
		return appendCBORInt(b, v.Int())
	case kindFloat:
		if v.Type().Bits() == 32 {
			return binary.BigEndian.AppendUint32(append(b, cborFloat), math.Float32bits(float32(v.Float())))
		}
		return binary.BigEndian.AppendUint64(append(b, cborDouble), math.Float64bits(v.Float()))
	case kindBlob:
		return append(appendCBORHead(b, cborBytes, uint64(v.Len())), v.Bytes()...)
	case kindTime:
		ms := v.Interface().(time.Time).UnixMilli()
		b = appendCBORHead(b, cborTag, cborEpoch)
		if ms%1000 == 0 {
			return appendCBORInt(b, ms/1000)
		}
		return binary.BigEndian.AppendUint64(append(b, cborDouble), math.Float64bits(float64(ms)/1000))
	case kindString:
		return appendCBORText(b, v.String())
	}
	panic(fmt.Sprintf("wire: %v has no form in CBOR", pl.typ))
}

func appendCBORInt(b []byte, n int64) []byte {
	if n < 0 {
		return appendCBORHead(b, cborNegative, uint64(-1-n))
	}
	return appendCBORHead(b, cborUint, uint64(n))
}
