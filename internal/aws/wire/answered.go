package wire

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Answered describes a request that has been answered, for [Options.Answered]: one whose signature was verified, or one
// of an operation without a signature that succeeded. Nothing of it may be kept: Input and Output are the request's.
type Answered struct {
	Time      time.Time // when the request came in
	RequestID string
	Service   *Service
	Operation string
	Region    string // of the credential scope
	Caller    Caller // the zero Caller for an operation without a signature
	SourceIP  string // empty for a request in this process
	VPC       *VPCSource
	UserAgent string
	InProcess bool

	// Input and Output are pointers to the SDK's structures; nil where the request did not get so far.
	Input, Output any
	Targets       []Target // that the operation was authorized for, before it ran

	// ErrorCode and ErrorMessage are what the caller was told; both are empty after success. An error that the API
	// declares has the name of its type, such as NoSuchEntityException.
	ErrorCode, ErrorMessage string
	// Denied reports that policies did not allow the request, or something that the operation does for its caller.
	Denied bool

	op *operation
}

// outcome is what dispatch learns of a request, for Answered.
type outcome struct {
	op            *operation
	input, output reflect.Value
	targets       []Target
}

// recordAnswered tells the Mux's options of a request that has been answered; f is nil after success.
func (m *Mux) recordAnswered(c *call, r *request, f *failure, err error) {
	o := &r.outcome
	if m.options.Answered == nil || o.op == nil || !r.verified && f != nil {
		return
	}
	a := Answered{
		Time: c.time, RequestID: r.id, Service: o.op.service, Operation: o.op.name, Region: c.region, Caller: c.caller,
		SourceIP: c.sourceIP, VPC: c.vpcSource, UserAgent: r.UserAgent(), InProcess: IsInProcess(r.Context()),
		Targets: o.targets, op: o.op,
	}
	if o.input.IsValid() {
		a.Input = o.input.Interface()
	}
	if o.output.IsValid() {
		a.Output = o.output.Interface()
	}
	if f != nil {
		var denied *Denied
		a.ErrorCode, a.ErrorMessage = f.code, f.message
		if f.modeled != nil && o.op.service.Protocol != EC2Query {
			a.ErrorCode = f.modeled.GoType
		}
		a.Denied = errors.As(err, &denied) || slices.Contains(deniedCodes, f.code)
	}
	m.options.Answered(&a)
}

// deniedCodes are the codes of errors with which services refuse what policies do not allow.
var deniedCodes = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}

// Hidden says what to write in place of the value of a member; empty to write the value.
type Hidden func(member string) string

// AppendInput appends the input as JSON, with the names of members that begin in lower case as CloudTrail has them.
// Values that are no text, such as those of blobs, are left out. It reports false when there is no input, or when its
// JSON would have more than limit bytes.
func (a *Answered) AppendInput(b []byte, hidden Hidden, limit int) ([]byte, bool) {
	if a.Input == nil || a.op.served == nil {
		return b, false
	}
	return appendMembers(b, a.op.input, reflect.ValueOf(a.Input), hidden, limit)
}

// AppendOutput appends the output, as AppendInput does the input.
func (a *Answered) AppendOutput(b []byte, hidden Hidden, limit int) ([]byte, bool) {
	if a.Output == nil || a.op.served == nil {
		return b, false
	}
	return appendMembers(b, a.op.output, reflect.ValueOf(a.Output), hidden, limit)
}

func appendMembers(b []byte, pl *plan, v reflect.Value, hidden Hidden, limit int) ([]byte, bool) {
	w := memberWriter{b: b, hidden: hidden, end: len(b) + limit}
	w.value("", pl, formatDateTime, v)
	return w.b, !w.isFull()
}

// memberWriter writes members of structures as JSON until it has written end bytes.
type memberWriter struct {
	b      []byte
	hidden Hidden
	end    int
	full   bool // something was left out

	// asked is the member that hidden was asked about last, and instead its answer.
	asked, instead string
}

func (w *memberWriter) isFull() bool { return w.full || len(w.b) > w.end }

func (w *memberWriter) text(name, text string) {
	if name != w.asked {
		w.asked, w.instead = name, w.hidden(name)
	}
	if w.instead != "" {
		text = w.instead
	}
	if w.full = len(text) > w.end-len(w.b); !w.full {
		w.b = appendJSONString(w.b, text)
	}
}

func (w *memberWriter) value(name string, pl *plan, format timeFormat, v reflect.Value) {
	if w.isFull() {
		return
	}
	v, ok := indirect(v)
	if !ok && v.Kind() != reflect.String {
		w.b = append(w.b, "null"...)
		return
	}
	switch pl.kind {
	case kindStruct:
		w.structure(pl, v)
	case kindList:
		w.b = append(w.b, '[')
		for i := range v.Len() {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			if w.isFull() {
				return
			}
			w.value(name, pl.elem, format, v.Index(i))
		}
		w.b = append(w.b, ']')
	case kindMap:
		w.b = append(w.b, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			if w.isFull() {
				return
			}
			w.b = appendJSONString(w.b, key.String())
			w.b = append(w.b, ':')
			w.value(name, pl.elem, format, v.MapIndex(key))
		}
		w.b = append(w.b, '}')
	case kindUnion:
		w.b = append(w.b, '{')
		if variant, value := pl.variantOf(v); variant != nil {
			w.b = appendJSONString(w.b, variant.name)
			w.b = append(w.b, ':')
			w.value(variant.name, variant.plan, formatDateTime, value)
		}
		w.b = append(w.b, '}')
	case kindString:
		w.text(name, v.String())
	case kindBlob, kindEventStream:
		w.b = append(w.b, "null"...)
	case kindTime:
		w.b = append(w.b, '"')
		w.b = appendTime(w.b, v.Interface().(time.Time), formatDateTime)
		w.b = append(w.b, '"')
	default:
		w.b = appendJSON(w.b, pl, format, v)
	}
}

func (w *memberWriter) structure(pl *plan, v reflect.Value) {
	w.b = append(w.b, '{')
	some := false
	for _, f := range pl.fields {
		value := v.Field(f.index)
		if _, ok := indirect(value); !ok || f.plan.kind == kindBlob || f.plan.kind == kindEventStream {
			continue
		}
		if some {
			w.b = append(w.b, ',')
		}
		some = true
		w.b = appendJSONString(w.b, strings.ToLower(f.name[:1])+f.name[1:])
		w.b = append(w.b, ':')
		w.value(f.name, f.plan, f.format, value)
	}
	w.b = append(w.b, '}')
}
