package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/region"
)

const (
	// forwardTime is the time within which forwardStep bytes of a forwarded payload have to arrive, or have to be taken
	// of an answer.
	forwardTime = 60 * time.Second
	forwardStep = 1 << 20
)

// Forwarded is a request for a service that has no handlers, whose signature has been verified.
type Forwarded struct {
	// Request is the request as it came. Its body is read through Body or Payload alone. Its context is for [Authorize].
	*http.Request
	// Signature is what was verified.
	Signature *sigv4.Signature
	// Body is the body of a request of a service whose protocol is not RestXML, or has a BodyLimit for the request.
	Body []byte
	// Payload is the body of other requests of services whose protocol is RestXML. It is verified as it is read.
	Payload *sigv4.Payload
}

// BeginTransfer lets other requests of the account have the turn of this one, before it waits for the service and its
// client. It fails when too many of the account do so already.
func (f *Forwarded) BeginTransfer() error {
	if !Yield(f.Context()) {
		return &throttledError{"Please reduce your request rate: too many requests of the account are being forwarded."}
	}
	return nil
}

// SetOperation says what the request asks for, for conditions and metrics. It comes before [Authorize].
func (f *Forwarded) SetOperation(name string) { callFrom(f.Context()).operation = name }

// Forward answers a request for a service that has no handlers by run, once its signature has been verified. run
// authorizes the request, and writes the answer, or returns an error before it has written any of it, which is rendered
// as the service's.
//
// The bodies of most services are read before, because their signature is of the whole. That of Amazon S3 says the hash
// of the body, or that it has signatures of its own, so that it need not be kept.
func (m *Mux) Forward(w http.ResponseWriter, hr *http.Request, service *Service, run func(http.ResponseWriter,
	*Forwarded) error) {
	r := &request{Request: hr, reads: http.NewResponseController(w), id: newRequestID()}
	w.Header().Set("X-Amzn-Requestid", r.id)
	if service.Protocol == RestXML {
		w.Header().Set("X-Amz-Request-Id", r.id)
	}
	buffer := buffers.Get().(*buffer)
	defer buffer.recycle()
	c := &call{time: m.options.Now(), answer: &answer{shares: m.answers}, service: service, requestID: r.id,
		authorize: m.options.Authorizer}
	c.setConnection(hr)
	defer c.answer.release()
	out := &forwardedAnswer{ResponseWriter: w, deadline: r.reads.SetWriteDeadline}
	body := &pacedBody{in: hr.Body, deadline: r.reads.SetReadDeadline}
	defer body.stop()
	err := m.runForwarded(c, buffer, r, service, body, out, run)
	status := out.status
	if err != nil && status != 0 {
		m.options.Logger.DebugContext(hr.Context(), "a forwarded answer ended early", "request", r.id, "service",
			service.Name, "error", err)
		panic(http.ErrAbortHandler) // half a response must not look like a whole one
	}
	if err != nil {
		// Senders of bodies may take their time, but not the account's turns.
		c.answer.release()
		if hr.Header.Get("Expect") == "" { // who waits to be asked for the body sends none
			body.drain(m.options.MaxBody)
		}
		f := m.failureOf(service, r, c.caller, err)
		if f.cause != nil && !canceled(hr.Context(), err) {
			m.options.Logger.ErrorContext(hr.Context(), "forwarded request failed", "request", r.id, "service",
				service.Name, "operation", c.operation, "error", f.cause)
		}
		requestErrors.WithLabelValues(service.Name, c.operation, f.code).Inc()
		status = f.status
		text := service.protocol().encodeError(buffer.out[:0], service, r, f, w.Header())
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		out.WriteHeader(status)
		if hr.Method != http.MethodHead {
			_, _ = out.Write(text) // the client may be gone
		}
	}
	observe(service, c, status, m.options.Now().Sub(c.time))
}

func (m *Mux) runForwarded(c *call, b *buffer, r *request, service *Service, body *pacedBody,
	w *forwardedAnswer, run func(http.ResponseWriter, *Forwarded) error) (err error) {
	defer func() {
		if p := recover(); p != nil && !isAbort(p) {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		} else if p != nil {
			panic(p)
		}
	}()
	streams := service.Protocol == RestXML
	if !streams {
		if err := m.readBody(b, r); err != nil {
			return err
		}
	}
	f, err := m.verifyForwarded(c, b, r, service, body)
	if err != nil {
		return err
	}
	if c.answer.turn, err = m.turns.begin(r.Context(), c.caller.Account, sourceOf(r.RemoteAddr)); err != nil {
		return err
	}
	if err := w.lift(); err != nil {
		return err
	}
	if err := body.lift(); err != nil {
		return err
	}
	f.Request = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	return run(w, f)
}

// verifyForwarded sets the caller of a request.
func (m *Mux) verifyForwarded(c *call, b *buffer, r *request, service *Service, body *pacedBody) (*Forwarded, error) {
	streams := service.Protocol == RestXML
	if streams && sigv4.IsVersion2(r.Request) {
		return nil, &Error{Code: "InvalidRequest", Status: http.StatusBadRequest, Message: "The authorization mechanism " +
			"you have provided is not supported. Please use AWS4-HMAC-SHA256."}
	}
	signature, err := sigv4.Parse(r.Request)
	if isUnsigned(err) && streams {
		// S3 takes it for somebody without credentials, to whom nothing is open here.
		return nil, &Error{Code: "AccessDenied", Message: "Access Denied", Status: http.StatusForbidden}
	}
	if err != nil {
		return nil, err
	}
	if signature.Service != service.SigningName {
		return nil, &sigv4.Error{Code: sigv4.SignatureDoesNotMatch, Status: http.StatusForbidden, Message: fmt.Sprintf(
			"Credential should be scoped to correct service: '%s'.", service.SigningName)}
	}
	if !region.Valid(signature.Region) {
		return nil, service.invalidRegion(signature.Region)
	}
	secret, caller, err := m.options.Credentials.Lookup(r.Context(), signature.AccessKeyID, signature.SessionToken)
	if err != nil {
		return nil, err
	}
	f := &Forwarded{Signature: signature}
	if streams {
		if f.Payload, err = signature.VerifyHead(body, secret, c.time); err != nil {
			return nil, err
		}
		if service.BodyLimit != nil {
			if limit := service.BodyLimit(r.Request); limit > 0 {
				if f.Body, err = m.readPayload(b, r, f.Payload, limit); err != nil {
					return nil, err
				}
			}
		}
	} else {
		if err := signature.CheckTime(c.time); err != nil {
			return nil, err
		}
		if err := m.readRest(b, r); err != nil {
			return nil, err
		}
		if err := signature.Verify(r.body, secret, c.time); err != nil {
			return nil, err
		}
		f.Body = r.body
		b.in = bytes.Buffer{} // whoever sends the body may do so after the answer
	}
	c.caller, c.region = caller, signature.Region
	return f, nil
}

// readPayload reads a payload as a whole. It takes its memory from what all bodies may have.
func (m *Mux) readPayload(b *buffer, r *request, p *sigv4.Payload, limit int64) ([]byte, error) {
	if p.Length > limit {
		return nil, &Error{Code: "EntityTooLarge", Status: http.StatusBadRequest,
			Message: "Your proposed upload exceeds the maximum allowed size"}
	}
	var body bytes.Buffer
	for int64(body.Len()) <= limit {
		if err := m.holdBody(b, r, bodyChunk); err != nil {
			return nil, err
		}
		if _, err := io.CopyN(&body, p, bodyChunk); errors.Is(err, io.EOF) {
			return body.Bytes(), nil
		} else if err != nil {
			return nil, UnreadablePayload(err)
		}
	}
	return nil, errTooLarge(limit)
}

// UnreadablePayload returns the error for a payload that could not be read to its end.
func UnreadablePayload(err error) error {
	var known interface{ JSONCode() string } // a *sigv4.Error says what is wrong
	if errors.As(err, &known) {
		return err
	}
	return &Error{Code: "RequestTimeout", Status: http.StatusBadRequest, Err: err, Message: "Your socket " +
		"connection to the server was not read from or written to within the timeout period."}
}

// pacedBody reads a body that may be large, as long as enough of it arrives.
type pacedBody struct {
	in       io.Reader
	deadline func(time.Time) error

	mu      sync.Mutex
	step    int64 // left of it
	ended   bool
	stopped bool
}

func (p *pacedBody) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return 0, http.ErrBodyReadAfterClose
	}
	if p.in == nil || p.ended {
		return 0, io.EOF
	}
	if p.step <= 0 {
		p.step = forwardStep
		if err := supported(p.deadline(time.Now().Add(forwardTime))); err != nil {
			return 0, err
		}
	}
	n, err := p.in.Read(b)
	p.step -= int64(n)
	if errors.Is(err, io.EOF) {
		p.ended = true
		if err := supported(p.deadline(time.Time{})); err != nil {
			return n, err
		}
	}
	return n, err
}

// lift lifts the server's limit for the time of a request, which would end the request while nothing is read.
func (p *pacedBody) lift() error { return supported(p.deadline(time.Time{})) }

// drain reads and forgets what is left of a body that is refused, up to a limit.
func (p *pacedBody) drain(limit int64) {
	if p.in == nil || !p.mu.TryLock() { // whoever reads it is stopped
		return
	}
	defer p.mu.Unlock()
	if supported(p.deadline(time.Now().Add(beginTime))) == nil {
		_, _ = io.CopyN(io.Discard, p.in, limit) // the connection is closed with what is left
	}
}

// stop ends reads of the body, whoever still makes some: the connection is the next request's.
func (p *pacedBody) stop() {
	if !p.mu.TryLock() { // somebody waits for the client
		_ = p.deadline(time.Now()) // a connection that has none is of this process
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	p.stopped = true
}

// forwardedAnswer is the answer to a forwarded request. It may be large, as long as enough of it is taken.
type forwardedAnswer struct {
	http.ResponseWriter
	deadline func(time.Time) error
	status   int
	step     int64
}

func (w *forwardedAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	_ = w.pace() // a connection without fails by itself
	w.ResponseWriter.WriteHeader(status)
}

// lift lifts the server's limit for the time of a request, which may be long before its answer begins.
func (w *forwardedAnswer) lift() error { return supported(w.deadline(time.Time{})) }

// pace gives the client time to take the next forwardStep bytes, after the last have been written.
func (w *forwardedAnswer) pace() error {
	if w.step > 0 {
		return nil
	}
	w.step = forwardStep
	return supported(w.deadline(time.Now().Add(forwardTime)))
}

func (w *forwardedAnswer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if err := w.pace(); err != nil {
		return 0, err
	}
	n, err := w.ResponseWriter.Write(b)
	w.step -= int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (w *forwardedAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// restXML is restXml, of which wire knows the errors: requests of its services are forwarded.
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
type restXML struct{ query }

func (restXML) encodeError(b []byte, _ *Service, r *request, f *failure, header http.Header) []byte {
	header.Set("Content-Type", "application/xml")
	b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<Error>"...)
	b = appendElement(b, "Code", f.code)
	b = appendElement(b, "Message", f.message)
	b = appendElement(b, "RequestId", r.id)
	return append(b, "</Error>"...)
}
