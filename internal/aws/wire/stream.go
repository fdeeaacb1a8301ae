package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/eventstream"
	"github.com/aws/smithy-go/traits"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// eventWriteTime limits the time in which a client receives one event. The server's limit for a whole answer is off for
// a stream.
const eventWriteTime = time.Minute

// headStart is the delay between a request and its answer. The SDK for Go closes the body of its request as
// soon as it has the header of the answer; net/http, if it has not yet seen for itself that the body has ended, then
// takes what the SDK's wrapper says (io.EOF from WriteTo, smithy-go 1.28) for a failure and drops the connection. With
// an answer that is there already nobody notices. A stream would be lost, on a host as near as this one.
const headStart = 20 * time.Millisecond

// eventPlan describes the encoding of the events of an operation.
type eventPlan struct {
	schema *smithy.Schema            // of the union
	events map[reflect.Type]*variant // by the Go type of the union's member
}

// checkStream panics unless the method's second result is an iter.Seq2[E, error], where E is the SDK's union of the
// operation's events.
func (s *served) checkStream(service *Service, name string, schema *smithy.OperationSchema) {
	if service.Protocol != AWSJSON10 && service.Protocol != AWSJSON11 {
		panic(fmt.Sprintf("wire: %s of %s is an event stream, which wire serves in awsJson only", name, service.Name))
	}
	union := streamSchema(schema)
	t := s.method.Type()
	if t.NumOut() == 3 {
		seq := t.Out(1)
		if seq.Kind() == reflect.Func && seq.NumIn() == 1 && seq.NumOut() == 0 {
			yield := seq.In(0)
			if yield.Kind() == reflect.Func && yield.NumIn() == 2 && yield.NumOut() == 1 &&
				yield.Out(0).Kind() == reflect.Bool &&
				yield.In(1) == reflect.TypeFor[error]() && yield.In(0).Name() == union.TargetID().Name &&
				model.Variants(yield.In(0)) != nil {
				s.events = yield.In(0)
				return
			}
		}
	}
	panic(fmt.Sprintf("wire: method %s is %v; its second result must be iter.Seq2[types.%s, error]", name, t,
		union.TargetID().Name))
}

// streamSchema returns the schema of the member of an output that is a stream.
func streamSchema(schema *smithy.OperationSchema) *smithy.Schema {
	for _, m := range schema.Output.Members() {
		if _, ok := smithy.SchemaTrait[*traits.Streaming](m); ok && m.Type() == smithy.ShapeTypeUnion {
			return m
		}
	}
	panic(fmt.Sprintf("wire: %v has no stream", schema.Output.ID()))
}

// planStream makes the plan of an operation's events. Every member of an event travels in its payload; no operation
// that wire knows has members in headers.
func (p *planner) planStream(union reflect.Type, schema *smithy.Schema) *eventPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &eventPlan{schema: schema, events: map[reflect.Type]*variant{}}
	variants := model.Variants(union)
	for name, m := range schema.Members() {
		t := variants[strings.ToUpper(name[:1])+name[1:]]
		if t == nil {
			continue // an exception
		}
		for _, inner := range m.Members() {
			_, header := smithy.SchemaTrait[*traits.EventHeader](inner)
			_, payload := smithy.SchemaTrait[*traits.EventPayload](inner)
			if header || payload {
				panic(fmt.Sprintf("wire: %s: member %s of event %s is not in the payload like the others",
					p.service.Name, inner.MemberName(), name))
			}
		}
		value, _ := t.FieldByName("Value")
		e.events[t] = &variant{name: name, typ: t, plan: p.buildPlan(value.Type, m)}
	}
	return e
}

// EndStreams ends the event streams under way, and those that begin later: their contexts are done. A server that shuts
// down calls it, for nothing else would end them.
func (m *Mux) EndStreams() { m.endStreams() }

// stream is an answer that goes on: what the method returned.
type stream struct {
	op     *operation
	out    reflect.Value
	events reflect.Value   // an iter.Seq2
	ctx    context.Context // the method's
	cancel context.CancelFunc
}

// beginStream calls the method of an operation that answers with events. The context that the method gets is done when
// the client has gone, when the stream has ended and when EndStreams is called.
func (m *Mux) beginStream(ctx context.Context, op *operation, in reflect.Value) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.streams, cancel)
	s := &stream{op: op, ctx: ctx, cancel: func() { stop(); cancel() }}
	begun := false
	defer func() {
		if !begun {
			s.cancel()
		}
	}()
	var err error
	if s.out, s.events, err = op.callMethod(ctx, in); err != nil {
		return nil, err
	}
	begun = true
	return s, nil
}

// sendStream writes the answer: the output as the initial response, then every event as it comes, and at the end the
// error, if there was one.
// https://smithy.io/2.0/aws/amazon-eventstream.html
func (m *Mux) sendStream(s *stream, w http.ResponseWriter, r *request, c *call) {
	defer s.cancel()
	select {
	case <-s.ctx.Done():
	case <-time.After(headStart):
	}
	log := m.options.Logger.With("request", r.id, "operation", c.operation)
	to := eventWriter{ResponseWriter: w, control: http.NewResponseController(w), encoder: eventstream.NewEncoder()}
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(http.StatusOK)

	content := contentTypeOf(s.op.service)
	payload, _ := appendJSONMembers([]byte{'{'}, s.op.output, s.out.Elem(), false, nil)
	gone := to.endless()
	if gone == nil {
		gone = to.writeEvent(append(payload, '}'), content, eventstream.MessageTypeHeader, eventstream.EventMessageType,
			eventstream.EventTypeHeader, "initial-response")
	}
	if gone != nil {
		s.cancel() // the iterator runs nevertheless, once, to clean up
	}
	err := s.iterate(func(e reflect.Value, err error) (more bool) {
		if gone != nil {
			return false
		}
		if err == nil {
			var name string
			name, payload, err = s.op.events.appendEvent(payload[:0], e)
			if err == nil && len(payload) > freeAnswer && !c.answer.part {
				// Beside the event, until the client has read it. It is copied once more to be written.
				err = c.answer.hold(s.ctx, c.caller.Account, 2*int64(len(payload)))
			}
			if err == nil {
				gone = to.writeEvent(payload, content, eventstream.MessageTypeHeader, eventstream.EventMessageType,
					eventstream.EventTypeHeader, name)
				if len(payload) > freeAnswer { // what is not counted is not kept for the next one
					payload, to.encoder = nil, eventstream.NewEncoder()
				}
				c.answer.release()
				return gone == nil
			}
		}
		if canceled(s.ctx, err) {
			return false // the client has gone, or the server shuts down
		}
		gone = to.writeError(s.op, m.failureOf(s.op.service, r, c.caller, err), content, log)
		return false
	})
	if err != nil && gone == nil {
		gone = to.writeError(s.op, m.failureOf(s.op.service, r, c.caller, err), content, log)
	}
	log.Debug("stream ended", "caller", c.caller.ARN, "took", m.options.Now().Sub(c.time), "client", gone)
}

// iterate runs the iterator. A panic in it is the error.
func (s *stream) iterate(yield func(event reflect.Value, err error) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	s.events.Call([]reflect.Value{reflect.MakeFunc(s.events.Type().In(0), func(args []reflect.Value) []reflect.Value {
		var err error
		if !args[1].IsNil() {
			err = args[1].Interface().(error)
		}
		return []reflect.Value{reflect.ValueOf(yield(args[0], err))}
	})})
	return nil
}

// appendEvent writes the payload of an event, a member of the SDK's union.
func (p *eventPlan) appendEvent(b []byte, e reflect.Value) (name string, _ []byte, err error) {
	held := e.Elem()
	if held.Kind() == reflect.Pointer {
		held = held.Elem()
	}
	if !held.IsValid() {
		return "", b, errors.New("the stream has neither an event nor an error")
	}
	v := p.events[held.Type()]
	if v == nil {
		return "", b, fmt.Errorf("%v is not an event of %s", held.Type(), p.schema.TargetID().Name)
	}
	b, _ = appendJSONMembers(append(b, '{'), v.plan, held.FieldByName("Value"), false, nil)
	return v.name, append(b, '}'), nil
}

// eventWriter writes messages, each of which leaves at once.
type eventWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	encoder *eventstream.Encoder
}

// endless lifts the server's limit for the time of a request.
func (w eventWriter) endless() error {
	return supported(w.control.SetReadDeadline(time.Time{}))
}

func (w eventWriter) writeEvent(payload []byte, content string, headers ...string) error {
	message := eventstream.Message{Payload: payload}
	for i := 0; i < len(headers); i += 2 {
		message.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	if payload != nil {
		message.Headers.Set(eventstream.ContentTypeHeader, eventstream.StringValue(content))
	}
	if err := supported(w.control.SetWriteDeadline(time.Now().Add(eventWriteTime))); err != nil {
		return err
	}
	if err := w.encoder.Encode(w, message); err != nil {
		return err
	}
	return w.control.Flush()
}

// writeError writes an error: one of the union's own as an exception, others by their code.
func (w eventWriter) writeError(op *operation, f *failure, content string, log *slog.Logger) error {
	if f.cause != nil {
		log.Error("stream failed", "error", f.cause)
	}
	if f.modeled != nil {
		for name, m := range op.events.schema.Members() {
			if m.TargetID() == f.modeled.Schema.ID() {
				payload := append(f.appendJSON([]byte{'{'}), '}')
				return w.writeEvent(payload, content, eventstream.MessageTypeHeader, eventstream.ExceptionMessageType,
					eventstream.ExceptionTypeHeader, name)
			}
		}
	}
	return w.writeEvent(nil, "", eventstream.MessageTypeHeader, eventstream.ErrorMessageType,
		eventstream.ErrorCodeHeader, f.code, eventstream.ErrorMessageHeader, f.message)
}

// supported forgives a ResponseWriter, such as that of a test, which has no deadlines.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
