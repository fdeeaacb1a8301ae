package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a [Mux]. Credentials and Authorizer are required.
type Options struct {
	Credentials Credentials
	Authorizer  Authorizer
	Now         func() time.Time // time.Now unless set
	Logger      *slog.Logger     // slog.Default() unless set
	Region      string           // the region of requests without a credential scope
	MaxBody     int64            // bytes; DefaultMaxBody unless set
	MaxBodies   int64            // bytes of all bodies at a time; DefaultMaxBodies unless set, and at least MaxBody
	MaxAnswers  int64            // bytes of all large answers at a time; DefaultMaxAnswers unless set
	// Answered is told of requests that have been answered (optional). It must not wait.
	Answered func(*Answered)
}

// Mux routes requests to services. Register everything before the first request; it is then safe for concurrent use.
type Mux struct {
	options    Options
	registered map[*Service]map[string]*served // by operation

	streams    context.Context // done when event streams must end
	endStreams context.CancelFunc
	bodies     *shares[netip.Addr]
	answers    *shares[string] // bytes by account
	turns      turns
	// Of requests in this process, so that controllers do not wait for users, but for others of their account.
	ownAnswers *shares[string]
	ownTurns   turns

	mu         sync.RWMutex
	operations map[*Service]map[string]*operation
	routers    map[*Service]*routes
}

// served is the handler of an operation, with the types that it has.
type served struct {
	Handler
	in, out reflect.Type // structures
	events  reflect.Type // the union of the operation's events, nil for other operations
	dryRun  int          // index of the input's DryRun, -1 without
}

// NewMux returns a Mux without services. It panics without credentials or an authorizer: serving everybody is a
// mistake.
func NewMux(options Options) *Mux {
	if options.Credentials == nil || options.Authorizer == nil {
		panic("wire: NewMux needs Credentials and an Authorizer")
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.MaxBody == 0 {
		options.MaxBody = DefaultMaxBody
	}
	if options.MaxBodies == 0 {
		options.MaxBodies = DefaultMaxBodies
	}
	if options.MaxAnswers == 0 {
		options.MaxAnswers = DefaultMaxAnswers
	}
	options.Region = cmp.Or(options.Region, "us-east-1")
	least := options.MaxBody + bodyChunk // a source can send the largest body, and so can the host beside it
	streams, endStreams := context.WithCancel(context.Background())
	answers := newShares[string](options.MaxAnswers, options.MaxAnswers/3)
	ownAnswers := newShares[string](options.MaxAnswers/2, options.MaxAnswers/6)
	answers.even, ownAnswers.even = true, true
	return &Mux{
		options:    options,
		streams:    streams,
		endStreams: endStreams,
		answers:    answers,
		turns:      newTurns(maxRunning, runWait),
		ownAnswers: ownAnswers,
		ownTurns:   newTurns(maxOwnRunning, ownRunWait),
		bodies:     newShares[netip.Addr](max(options.MaxBodies, 2*least), max(options.MaxBodies/8, least)),
		registered: map[*Service]map[string]*served{},
		operations: map[*Service]map[string]*operation{},
		routers:    map[*Service]*routes{},
	}
}

// Register serves operations of a service, which may be registered in several parts. It panics when a handler's types
// are not those of an operation of the service, and when an operation is served twice: wiring mistakes show at start.
func (m *Mux) Register(service *Service, handlers ...Handler) {
	if m.registered[service] == nil {
		m.registered[service] = map[string]*served{}
	}
	for _, h := range handlers {
		schema, ok := model.Load(service.Name).Operation(h.name)
		switch {
		case !ok:
			panic(fmt.Sprintf("wire: %s is not an operation of %s", h.name, service.Name))
		case schema.IsInputEventStream():
			panic(fmt.Sprintf("wire: %s of %s reads an event stream, which wire does not serve", h.name, service.Name))
		case m.registered[service][h.name] != nil:
			panic(fmt.Sprintf("wire: %s of %s is served twice", h.name, service.Name))
		}
		s := &served{Handler: h, dryRun: -1}
		if schema.IsOutputEventStream() {
			s.checkStream(service, h.name, schema)
		}
		s.checkTypes(service, h.name)
		if f, ok := s.in.FieldByName("DryRun"); ok && service.Protocol == EC2Query {
			s.dryRun = f.Index[0]
		}
		m.registered[service][h.name] = s
	}
}

// checkTypes panics unless the method is func(context.Context, *pkg.OpInput) (*pkg.OpOutput, error) of the service's
// SDK package.
func (s *served) checkTypes(service *Service, name string) {
	t := s.method.Type()
	results := 2
	if s.events != nil {
		results = 3 // see checkStream
	}
	ok := t.NumIn() == 2 && t.NumOut() == results &&
		t.In(0) == reflect.TypeFor[context.Context]() && t.Out(results-1) == reflect.TypeFor[error]() &&
		isSDKType(t.In(1), service, name+"Input") && isSDKType(t.Out(0), service, name+"Output")
	if !ok {
		panic(fmt.Sprintf("wire: method %s is %v; it must be func(context.Context, *%s.%sInput) (*%s.%sOutput, error)",
			name, t, service.Name, name, service.Name, name))
	}
	s.in, s.out = t.In(1).Elem(), t.Out(0).Elem()
}

func isSDKType(t reflect.Type, service *Service, name string) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Name() == name && strings.HasSuffix(t.Elem().PkgPath(), "/service/"+
		service.Name)
}

// ServeHTTP answers one request. It does not route by Host or path prefix: the credential scope names the service.
func (m *Mux) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, reads: http.NewResponseController(w), id: newRequestID()}
	header := w.Header()
	header.Set("X-Amzn-Requestid", r.id)
	buffer := buffers.Get().(*buffer)
	defer buffer.recycle()

	var gone error // the client
	r.spill = func(b []byte) []byte {
		r.spilled = true
		if gone == nil {
			_, gone = w.Write(b)
		}
		return b[:0]
	}

	c := &call{time: m.options.Now(), answer: m.newAnswer(hr.Context())}
	var f *failure
	var service *Service
	var err error
	defer func() { m.recordAnswered(c, r, f, err) }() // once the answer is written, and its turn has ended
	defer c.answer.release()
	status := http.StatusOK
	err = m.readBody(buffer, r)
	if err == nil {
		var events *stream
		if service, events, err = m.dispatch(c, buffer, r, header, &status); events != nil {
			buffer.giveBack()
			buffer.in, r.body = bytes.Buffer{}, nil // for as long as the stream
			c.answer.release()
			m.recordAnswered(c, r, nil, nil)
			r.outcome = outcome{} // the end of the stream is no second request
			m.sendStream(events, w, r, c)
			observe(service, c, http.StatusOK, m.options.Now().Sub(c.time))
			return
		}
	}
	if err != nil {
		m.drainBody(r)
		if service == nil {
			service = protocolOf(r)
		}
		f = m.failureOf(service, r, c.caller, err)
		if canceled(hr.Context(), err) {
			m.options.Logger.DebugContext(hr.Context(), "the client gave up", "request", r.id, "operation", c.operation)
		} else if f.cause != nil {
			m.options.Logger.ErrorContext(hr.Context(), "request failed", "request", r.id, "service", service.Name,
				"operation", c.operation, "error", f.cause)
		}
		if r.spilled {
			panic(http.ErrAbortHandler) // half a response must not look like a whole one
		}
		status = f.status
		requestErrors.WithLabelValues(service.Name, c.operation, f.code).Inc()
		buffer.out = service.protocol().encodeError(buffer.out[:0], service, r, f, header)
	}
	observe(service, c, status, m.options.Now().Sub(c.time))
	if log := m.options.Logger; log.Enabled(hr.Context(), slog.LevelDebug) {
		log.DebugContext(hr.Context(), "request", "request", r.id, "operation", c.operation, "caller", c.caller.ARN,
			"status", status, "took", m.options.Now().Sub(c.time))
	}
	if !r.spilled {
		header.Set("Content-Length", strconv.Itoa(len(buffer.out)))
		w.WriteHeader(status)
	}
	if hr.Method == http.MethodHead {
		return
	}
	if gone == nil {
		_, gone = w.Write(buffer.out)
	}
	if gone != nil {
		m.options.Logger.DebugContext(hr.Context(), "the client went away before it had its answer", "request", r.id,
			"error", gone)
	}
}

// isAbort reports whether a panic is http.ErrAbortHandler, with which a handler ends a connection.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// isThrottled reports whether a panic refuses a request that may be tried again.
func isThrottled(p any) bool {
	err, ok := p.(error)
	var throttled *throttledError
	return ok && errors.As(err, &throttled)
}

// dispatch authenticates, decodes, validates, authorizes and runs an operation. It leaves the response in the buffer,
// or returns a stream that is still to be sent. It returns the service even with an error, unless the request names
// none. A panic is an internal failure of this request, and does not end the daemon.
func (m *Mux) dispatch(c *call, b *buffer, r *request, header http.Header, status *int) (
	service *Service, events *stream, err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case isAbort(p):
			panic(p)
		case isThrottled(p): // from a view, which cannot return an error
			err = p.(error)
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	service, op, err := m.authenticate(c, b, r)
	if err != nil {
		return service, nil, err
	}
	r.outcome.op = op
	c.setConnection(r.Request)
	r.forgetForm()
	if !c.answer.part {
		turns := &m.turns
		if IsInProcess(r.Context()) {
			turns = &m.ownTurns
		}
		if c.answer.turn, err = turns.begin(r.Context(), c.caller.Account, sourceOf(r.RemoteAddr)); err != nil {
			return service, nil, err
		}
	}
	in, err := c.decode(op, r)
	r.outcome.input = in // also one that is refused
	if err != nil {
		return service, nil, err
	}
	c.setOperation(m, op, r, in.Interface())
	ctx := context.WithValue(r.Context(), callKey{}, c)
	if c.caller.Service != "" {
		ctx = store.Limited(ctx) // what users have a service do counts as theirs
		header.Set(serviceHeader, c.caller.Service)
	}
	if !IsInProcess(ctx) { // controllers must get on in an account that is full
		ctx = store.Limited(ctx)
	}
	if !c.answer.part {
		request := ctx
		ctx = store.Metered(ctx, func(bytes int64) error {
			return c.answer.chargeRead(request, c.caller.Account, bytes)
		})
	}
	// The method runs while the records that the decision was made on are unchanged (see store.Decide): nobody replaces a
	// resource between the two.
	run, decision, err := store.Decide(ctx, func(recorded context.Context) (err error) {
		r.outcome.targets, err = m.authorize(ctx, recorded, c, op)
		return err
	})
	if err != nil {
		return service, nil, err
	}
	defer decision.Release()
	if op.served.events != nil {
		events, err = m.beginStream(run, op, in)
		return service, events, err
	}
	out, _, err := op.callMethod(run, in)
	if err != nil {
		return service, nil, err
	}
	r.outcome.output = out
	b.out, *status = service.protocol().encodeResponse(b.out[:0], op, r, out.Elem(), header)
	if len(b.out) > freeAnswer && !r.spilled && op.reads && !c.answer.part {
		err = c.answer.hold(ctx, c.caller.Account, int64(len(b.out)))
	}
	return service, nil, err
}

// authenticate verifies the signature of a request, and returns its service and operation. It sets the caller.
func (m *Mux) authenticate(c *call, b *buffer, r *request) (*Service, *operation, error) {
	signature, err := sigv4.Parse(r.Request)
	if isUnsigned(err) {
		op := m.unsignedOperation(r)
		if op == nil {
			return nil, nil, err
		}
		if r.unread {
			return op.service, nil, errTooLarge(maxUnsigned)
		}
		c.operation, c.region = op.name, m.options.Region
		return op.service, op, nil
	}
	var service *Service
	services := bySigningName[signature.Service]
	if len(services) > 0 {
		service = services[0]
	}
	if err != nil {
		return service, nil, err
	}
	if service == nil {
		return nil, nil, &Error{Code: "UnknownService", Message: fmt.Sprintf("The service %q is not served by coracle.",
			signature.Service), Status: http.StatusNotImplemented}
	}
	if !region.Valid(signature.Region) { // it becomes a part of ARNs and of host names
		return service, nil, service.invalidRegion(signature.Region)
	}
	secret, caller, err := m.options.Credentials.Lookup(r.Context(), signature.AccessKeyID, signature.SessionToken)
	if err != nil {
		return service, nil, err
	}
	if err := signature.CheckTime(c.time); err != nil {
		return service, nil, err
	}
	if err := m.readRest(b, r); err != nil {
		return service, nil, err
	}
	if err := signature.Verify(r.body, secret, c.time); err != nil {
		return service, nil, err
	}
	r.verified = true
	c.caller, c.region = caller, signature.Region
	if len(services) > 1 {
		service = chooseByVersion(services, r)
	}
	op, err := service.protocol().operation(m, service, r)
	if err == nil {
		c.operation = op.name
	}
	return service, op, err
}

// setOperation sets the fields of the call that handlers read from their context: the operation and its input.
func (c *call) setOperation(m *Mux, op *operation, r *request, input any) {
	c.service, c.operation, c.input = op.service, op.name, input
	c.requestID = r.id
	c.authorize = m.options.Authorizer
}

// Decode reads a request for a service as ServeHTTP does, without a look at its signature or at the constraints of its
// input, which it returns as a pointer to the SDK's structure.
func (m *Mux) Decode(service *Service, hr *http.Request) (operation string, input any, err error) {
	b := &buffer{}
	r := &request{Request: hr, verified: true}
	defer b.giveBack()
	if err := m.readBody(b, r); err != nil {
		return "", nil, err
	}
	if err := m.readRest(b, r); err != nil {
		return "", nil, err
	}
	op, err := service.protocol().operation(m, service, r)
	if err != nil {
		return "", nil, err
	}
	in, err := op.decodeInput(r)
	if err != nil {
		return op.name, nil, err
	}
	return op.name, in.Interface(), nil
}

// decode makes the operation's input from a request, and validates it. Meanwhile it holds memory of the caller's
// account: what a short text is decoded to may be large. The lists of what is left are bounded.
func (c *call) decode(op *operation, r *request) (in reflect.Value, err error) {
	if size := op.service.protocol().decodedSize(r); size > freeDecoded && !c.answer.part {
		if err := c.answer.hold(r.Context(), c.caller.Account, size); err != nil {
			return in, err
		}
		defer c.answer.giveBack()
	}
	if in, err = op.decodeInput(r); err == nil {
		err = op.service.validate(op.input, in)
	}
	return in, err
}

// decodeInput makes the operation's input from a request.
func (op *operation) decodeInput(r *request) (reflect.Value, error) {
	if op.served == nil {
		return reflect.Value{}, op.service.notServed(op.name)
	}
	op.prepare()
	in := reflect.New(op.served.in)
	return in, op.service.protocol().decodeRequest(op, r, in)
}

// authorize has the authorizer decide about all targets of the operation. The records of the targets are read in the
// context recorded, which remembers them; policies are read in ctx, since a change of them takes effect with the next
// request.
func (m *Mux) authorize(ctx, recorded context.Context, c *call, op *operation) ([]Target, error) {
	if op.served.unsigned || op.served.unrestricted {
		return nil, nil
	}
	targets, err := op.served.targets(recorded, op.action, c.input)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		targets = []Target{{Action: op.action, Resource: "*"}}
	}
	began := m.options.Now()
	err = c.decide(ctx, m.options.Authorizer, targets)
	observeDecision(err, m.options.Now().Sub(began))
	return targets, err
}

func (op *operation) isDryRun(in reflect.Value) bool {
	if op.served.dryRun < 0 {
		return false
	}
	dry, ok := indirect(in.Elem().Field(op.served.dryRun))
	return ok && dry.Bool()
}

// callMethod calls the method. Only operations with events have an iterator of them.
func (op *operation) callMethod(ctx context.Context, in reflect.Value) (out, events reflect.Value, err error) {
	dry := op.isDryRun(in)
	if dry && !op.served.checksDryRun {
		return out, events, &Error{Code: "DryRunOperation",
			Message: "Request would have succeeded, but DryRun flag is set.", Status: http.StatusPreconditionFailed}
	}
	results := op.served.method.Call([]reflect.Value{reflect.ValueOf(ctx), in})
	if e := results[len(results)-1]; !e.IsNil() {
		return out, events, e.Interface().(error)
	}
	if err := store.MeterError(ctx); err != nil { // the method may have taken it for a row that is not there
		return out, events, err
	}
	switch {
	case dry:
		return out, events, fmt.Errorf("%s did not look at DryRun", op.name)
	case results[0].IsNil():
		return out, events, fmt.Errorf("%s returned neither an output nor an error", op.name)
	case len(results) < 3:
		return results[0], events, nil
	case results[1].IsNil():
		return out, events, fmt.Errorf("%s returned neither events nor an error", op.name)
	}
	return results[0], results[1], nil
}

func isUnsigned(err error) bool {
	var s *sigv4.Error
	return errors.As(err, &s) && s.Code == sigv4.MissingAuthenticationToken
}

// unsignedOperation finds the operation of a request without a signature among those that need none; nil when it is not
// one of them.
func (m *Mux) unsignedOperation(r *request) *operation {
	for service, methods := range m.registered {
		for _, s := range methods {
			if !s.unsigned {
				continue
			}
			if op, err := service.protocol().operation(m, service, r); err == nil && op.served != nil &&
				op.served.unsigned {
				return op
			}
			break
		}
	}
	return nil
}

// bySigningName are the services by the name in the credential scope. Classic Load Balancing and its successor
// have one.
var bySigningName = func() map[string][]*Service {
	m := map[string][]*Service{}
	for _, s := range Services() {
		m[s.SigningName] = append(m[s.SigningName], s)
	}
	return m
}()

// chooseByVersion returns that of several services whose version of the API a request is for; without a version, that
// which has the operation.
func chooseByVersion(services []*Service, r *request) *Service {
	form, err := r.parameters()
	if err != nil {
		return services[0] // which says so
	}
	version, action := form.Get("Version"), form.Get("Action")
	for _, s := range services {
		if version == s.APIVersion {
			return s
		}
	}
	for _, s := range services {
		if _, ok := model.Load(s.Name).Operation(action); ok && version == "" {
			return s
		}
	}
	return services[0]
}

// newRequestID returns a random UUID.
func newRequestID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	var text [36]byte
	hex.Encode(text[0:8], u[0:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:36], u[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
