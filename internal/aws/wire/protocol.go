package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// A protocol knows how requests name their operation and carry their input, and how responses carry output and errors.
type protocol interface {
	// operation finds the operation that a request asks for. The error is what AWS says of one it does not know.
	operation(m *Mux, service *Service, r *request) (*operation, error)
	// decode sets the input structure from the request.
	decodeRequest(op *operation, r *request, in reflect.Value) error
	// decodedSize returns about how much memory the input of a request takes while it is decoded, in bytes.
	decodedSize(r *request) int64
	// encode appends the response body to b and returns its HTTP status; it may set headers.
	encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) ([]byte, int)
	// encodeError appends the body of an error response.
	encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte
}

// valueMemory is what a value of a request takes in bytes while it is decoded, beside its text: in the form or the JSON
// value that is parsed, and in the input. freeDecoded is what each request may take of it.
const valueMemory, freeDecoded = 640, 1 << 20

func (s *Service) protocol() protocol {
	switch s.Protocol {
	case RestJSON1:
		return restJSON{}
	case AWSJSON10, AWSJSON11:
		return awsJSON{}
	case RPCv2CBOR:
		return anyProtocol{}
	case EC2Query:
		return query{ec2: true}
	case RestXML:
		return restXML{}
	default:
		return query{}
	}
}

// request is an HTTP request whose body has been read.
type request struct {
	*http.Request
	reads  *http.ResponseController // of the connection; nil in this process
	body   []byte
	unread bool // there is more of the body
	// expected is the time within which the part of the body that is being read has to arrive; 0 when none is set.
	expected time.Duration
	id       string
	labels   []string // of the path, in the order of the operation's URI

	// spill sends what an encoder has written so far of a response that is large, with status 200, and gives the buffer
	// back empty. Its memory is then not that of the whole response. Nil: none of it can be sent before the end.
	spill   func(b []byte) []byte
	spilled bool // something was sent so

	verified bool // the signature is: somebody answers for what the request takes
	outcome  outcome

	form    url.Values // parameters of a query request, see parameters
	formErr error
	formed  bool
}

// maxUnverifiedParameters limits the parameters of a request for which nobody answers yet. A short text is many of
// them, each of which takes a hundred bytes for as long as the request waits. AssumeRoleWithWebIdentity, which nobody
// signs, has fewer than twenty.
const maxUnverifiedParameters = 100

// countParameters returns how many parameters a query request has at most.
func (r *request) countParameters() int {
	return strings.Count(r.URL.RawQuery, "&") + bytes.Count(r.body, []byte("&")) + 2
}

// forgetForm forgets parameters that take much memory. They are read again when the request has its turn.
func (r *request) forgetForm() {
	if len(r.form) > maxUnverifiedParameters {
		r.form, r.formErr, r.formed = nil, nil, false
	}
}

// parameters returns the parameters of a query request: those of the URL, as in a presigned one, and those of the body
// that are not in the URL.
func (r *request) parameters() (url.Values, error) {
	if r.formed {
		return r.form, r.formErr
	}
	r.formed = true
	if n := r.countParameters(); !r.verified && n > maxUnverifiedParameters {
		r.formErr = &Error{Code: "MalformedQueryString", Message: fmt.Sprintf("A request that is not signed has at most "+
			"%d parameters", maxUnverifiedParameters), Status: http.StatusNotFound}
		return nil, r.formErr
	}
	r.form, r.formErr = url.ParseQuery(r.URL.RawQuery)
	if r.formErr != nil {
		r.formErr = &Error{Code: "MalformedQueryString", Message: "The query string could not be read: " +
			r.formErr.Error(), Status: http.StatusNotFound}
		return nil, r.formErr
	}
	if len(r.body) > 0 {
		body, err := url.ParseQuery(string(r.body))
		if err != nil {
			r.formErr = &Error{Code: "MalformedQueryString", Message: "The form in the body could not be read: " +
				err.Error(), Status: http.StatusNotFound}
			return nil, r.formErr
		}
		if len(r.form) == 0 {
			r.form = body
		} else {
			for k, v := range body {
				if !r.form.Has(k) { // the URL is signed always, a body only if its signer wanted it
					r.form[k] = v
				}
			}
		}
	}
	return r.form, nil
}

// protocolOf guesses the protocol of a request that names no service, to answer in a form that its sender can read.
func protocolOf(r *request) *Service {
	target := r.Header.Get("X-Amz-Target")
	if prefix, _, ok := cutOperation(r.URL.Path); ok && isCBOR(r) {
		target = prefix + "."
	}
	if target != "" {
		prefix := target[:max(strings.LastIndexByte(target, '.'), 0)]
		for _, s := range Services() {
			if prefix != "" && (s.TargetPrefix == prefix || s.oldTarget == prefix) {
				return s
			}
		}
		return SSM
	}
	if form, err := r.parameters(); strings.HasPrefix(r.Header.Get("Content-Type"),
		"application/x-www-form-urlencoded") || err == nil && form.Get("Action") != "" {
		if err == nil && form.Get("Version") == EC2.APIVersion {
			return EC2
		}
		return STS
	}
	return EKS
}
