package wire

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/store"
)

// A failure is an error on its way out: what the response says, whatever the protocol.
type failure struct {
	code    string
	message string
	status  int
	cause   error // logged, when the fault is ours

	modeled *model.Error
	plan    *plan         // of the modeled error's members
	value   reflect.Value // the modeled error
}

// maxMessage limits the bytes of a message that are sent: its beginning and its end, which often says what is wrong
// with what the message quotes before. A message that quotes a request must not be as large as that.
const maxMessage = 4 << 10

// failureOf turns any error into what its service's protocol says of it.
func (m *Mux) failureOf(service *Service, r *request, caller Caller, err error) *failure {
	f := m.classify(service, r, caller, err)
	if n := len(f.message); n > maxMessage {
		const end = 1 << 10
		f.message = strings.ToValidUTF8(f.message[:maxMessage-end-3], "") + "..." +
			strings.ToValidUTF8(f.message[n-end:], "")
	}
	if f.modeled != nil && len(appendJSON(nil, f.plan, formatDefault, f.value)) > maxMessage {
		// The SDK gives every exception a message; other members would be as large as what they quote.
		f.value = reflect.New(f.plan.typ).Elem()
		f.value.FieldByName("Message").Set(reflect.ValueOf(&f.message))
	}
	return f
}

func (m *Mux) classify(service *Service, r *request, caller Caller, err error) *failure {
	var denied *Denied
	var wireErr *Error
	var signature *sigv4.Error
	var api smithy.APIError
	var full *store.FullError
	var throttled *throttledError
	switch {
	case errors.As(err, &throttled):
		f := &failure{code: service.throttlingCode(), message: throttled.message, status: http.StatusBadRequest}
		if service.Protocol == RestXML {
			f.status = http.StatusServiceUnavailable
		}
		return f
	case errors.As(err, &full):
		return service.quotaExceeded(full)
	case errors.As(err, &denied):
		return service.denialFailure(denied, caller)
	case errors.As(err, &signature):
		return service.badSignature(signature)
	case errors.As(err, &wireErr):
		f := &failure{code: wireErr.Code, message: wireErr.Message, status: wireErr.Status}
		if f.status == 0 {
			f.status = service.statusOf(f.code)
		}
		if f.status >= http.StatusInternalServerError {
			f.cause = wireErr.Err
		}
		return f
	case errors.Is(err, ErrUnknownAccessKey):
		return service.unknownKey()
	case errors.Is(err, ErrExpiredToken):
		return service.expiredToken()
	case errors.As(err, &api):
		if f := service.exception(api); f != nil {
			return f
		}
		// An error of another service, passed on by mistake: its code would mislead the caller.
	}
	code := "InternalFailure"
	if service.Protocol == EC2Query {
		code = "InternalError"
	}
	return &failure{
		code: code, status: http.StatusInternalServerError, cause: err,
		message: "An internal error has occurred. Its cause is in the log of coracle under request id " + r.id + ".",
	}
}

// exception renders an error of the SDK's types package with all its members; nil when it is not one of this service.
func (s *Service) exception(api smithy.APIError) *failure {
	v := reflect.ValueOf(api)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	t := v.Elem().Type()
	if !strings.HasSuffix(t.PkgPath(), "/service/"+s.Name+"/types") {
		return nil
	}
	p := plannerOf(s)
	e, ok := p.model.Error(t.Name())
	if !ok {
		return nil
	}
	f := &failure{code: e.GoType, message: api.ErrorMessage(), status: e.Status, modeled: e,
		plan: p.planFor(t, e.Schema), value: v.Elem()}
	if !s.isJSONProtocol() {
		f.code = e.Code
	}
	return f
}

// statusOf returns the HTTP status of a code that a handler gave without one.
func (s *Service) statusOf(code string) int {
	if s.isServed() {
		if status := model.Load(s.Name).Status(code); status != 0 {
			return status
		}
	}
	switch code {
	case "AccessDenied", "UnauthorizedOperation":
		return http.StatusForbidden
	case "AccessDeniedException":
		return s.forbidden()
	case "InternalFailure", "InternalError", "InternalServerError", "ServiceFailure":
		return http.StatusInternalServerError
	case "ServiceUnavailable", "Unavailable", "ServiceUnavailableException":
		return http.StatusServiceUnavailable
	case "DryRunOperation":
		return http.StatusPreconditionFailed
	}
	return http.StatusBadRequest
}

// forbidden returns the status of refusals: awsJson has only one status for everything that is the caller's fault.
func (s *Service) forbidden() int {
	if s.Protocol == AWSJSON10 || s.Protocol == AWSJSON11 || s.Protocol == RPCv2CBOR {
		return http.StatusBadRequest
	}
	return http.StatusForbidden
}

// throttledError refuses a request that may be tried again as it is.
type throttledError struct{ message string }

func (e *throttledError) Error() string { return e.message }

// throttlingCode returns the code after which clients of the service try again.
func (s *Service) throttlingCode() string {
	switch {
	case s.Protocol == EC2Query:
		return "RequestLimitExceeded"
	case s.isJSONProtocol():
		return "ThrottlingException"
	case s.Protocol == RestXML:
		return "SlowDown"
	default:
		return "Throttling"
	}
}

// quotaExceeded renders that an account has no room for what it wants to write, in the code that the service has for
// quotas, or, where time helps, in one that clients try again after.
func (s *Service) quotaExceeded(full *store.FullError) *failure {
	f := &failure{code: "LimitExceeded", message: full.Error(), status: http.StatusBadRequest}
	codes := []string{
		"ParameterLimitExceeded", "ServiceQuotaExceededException", "ResourceLimitExceededException",
		"LimitExceededException",
	}
	switch {
	case full.Recent:
		f.code = s.throttlingCode()
		return f
	case s.isJSONProtocol():
		f.code = "LimitExceededException"
	default:
		codes = []string{f.code}
	}
	for _, code := range codes {
		if status := model.Load(s.Name).Status(code); status != 0 {
			f.code, f.status = code, status
			break
		}
	}
	return f
}

func (s *Service) denialFailure(d *Denied, caller Caller) *failure {
	f := &failure{code: "AccessDenied", message: d.message(caller), status: s.forbidden()}
	switch {
	case s.Protocol == EC2Query:
		f.code, f.message = "UnauthorizedOperation", "You are not authorized to perform this operation. "+f.message
	case s.isJSONProtocol():
		f.code = "AccessDeniedException"
	}
	return f
}

func (s *Service) unknownKey() *failure {
	switch {
	case s.Protocol == EC2Query:
		return s.authFailure()
	case s.isJSONProtocol():
		return &failure{code: "UnrecognizedClientException",
			message: "The security token included in the request is invalid.", status: s.forbidden()}
	case s.Protocol == RestXML:
		return &failure{code: "InvalidAccessKeyId", status: http.StatusForbidden,
			message: "The AWS Access Key Id you provided does not exist in our records."}
	}
	return &failure{code: "InvalidClientTokenId", message: "The security token included in the request is invalid.",
		status: http.StatusForbidden}
}

func (s *Service) expiredToken() *failure {
	switch {
	case s.Protocol == EC2Query:
		return &failure{code: "RequestExpired", message: "Request has expired.", status: http.StatusBadRequest}
	case s.isJSONProtocol():
		return &failure{code: "ExpiredTokenException", message: "The security token included in the request is expired",
			status: s.forbidden()}
	case s.Protocol == RestXML:
		return &failure{code: "ExpiredToken", message: "The provided token has expired.", status: http.StatusBadRequest}
	}
	return &failure{code: "ExpiredToken", message: "The security token included in the request is expired",
		status: http.StatusForbidden}
}

// invalidRegion refuses a signature for a region that does not exist.
func (s *Service) invalidRegion(region string) error {
	e := sigv4.InvalidRegion(region)
	if s.Protocol == EC2Query {
		f := s.authFailure()
		return &Error{Code: f.code, Message: e.Message, Status: f.status}
	}
	return e
}

// authFailure returns all that EC2 tells of a signature that it does not accept, a skewed clock included.
func (s *Service) authFailure() *failure {
	return &failure{code: "AuthFailure", message: "AWS was not able to validate the provided access credentials",
		status: http.StatusUnauthorized}
}

func (s *Service) badSignature(e *sigv4.Error) *failure {
	switch {
	case s.Protocol == EC2Query && e.Code == sigv4.SignatureDoesNotMatch:
		return s.authFailure()
	case s.isJSONProtocol():
		f := &failure{code: e.JSONCode(), message: e.Message, status: e.Status}
		if f.status < http.StatusInternalServerError && s.Protocol != RestJSON1 {
			f.status = http.StatusBadRequest
		}
		return f
	}
	return &failure{code: e.Code, message: e.Message, status: e.Status}
}

// notServed returns the answer for an operation that AWS has and coracle does not.
func (s *Service) notServed(operation string) *Error {
	code := "NotImplemented"
	if s.Protocol == EC2Query {
		code = "UnsupportedOperation"
	}
	return &Error{Code: code, Message: operation + " is not implemented by coracle", Status: http.StatusNotImplemented}
}

func (f *failure) faultOf(client, server string) string {
	if f.status >= http.StatusInternalServerError {
		return server
	}
	return client
}

// queryCode returns the code in the query protocols, which differs from the exception's name for some.
func (f *failure) queryCode() string {
	if f.modeled != nil {
		return f.modeled.Code
	}
	return f.code
}

// appendJSON writes the members of the error.
func (f *failure) appendJSON(b []byte) []byte {
	if f.modeled == nil || f.message != "" && f.plan.byName["message"] == nil && f.plan.byName["Message"] == nil {
		b = appendJSONField(b, "message", f.message)
	}
	if f.modeled == nil {
		return b
	}
	members, some := appendJSONMembers(nil, f.plan, f.value, false, nil)
	if some && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, members...)
}

// appendXML writes the members of the error. The message is always there, and spelt as old clients expect it.
func (f *failure) appendXML(b []byte) []byte {
	b = appendElement(b, "Message", f.message)
	if f.modeled == nil {
		return b
	}
	for _, fl := range f.plan.fields {
		if _, ok := indirect(f.value.Field(fl.index)); ok && fl.goName != "Message" {
			b = appendXML(b, fl.plan, fl.flat, fl.format, fl.xml, f.value.Field(fl.index))
		}
	}
	return b
}

// canceled reports whether a handler gave up because its client did.
func canceled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
