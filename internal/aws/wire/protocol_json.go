package wire

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
)

// awsJSON is awsJson1.0 and awsJson1.1: everything is POST /, the operation in X-Amz-Target, the input in the body.
// https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html
type awsJSON struct{}

func (awsJSON) operation(m *Mux, service *Service, r *request) (*operation, error) {
	target := r.Header.Get("X-Amz-Target")
	name, ok := strings.CutPrefix(target, service.TargetPrefix+".")
	if !ok && service.oldTarget != "" {
		name, ok = strings.CutPrefix(target, service.oldTarget+".")
	}
	if ok {
		if op := m.operation(service, name); op != nil {
			return op, nil
		}
	}
	return nil, unknownOperation(service, target)
}

func (awsJSON) decodeRequest(op *operation, r *request, in reflect.Value) error {
	if len(r.body) == 0 {
		return nil
	}
	return decodeJSONBody(op.input, r.body, in)
}

func (awsJSON) decodedSize(r *request) int64 { return valueMemory * int64(countValues(r.body)) }

// serialization gives a malformed JSON input its code.
func serialization(err error) error {
	var bad *malformed
	if errors.As(err, &bad) {
		return &Error{Code: "SerializationException", Message: bad.message, Status: http.StatusBadRequest}
	}
	return err
}

func (awsJSON) encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) (
	[]byte, int) {
	header.Set("Content-Type", contentTypeOf(op.service))
	b = append(b, '{')
	b, _ = appendJSONMembers(b, op.output, out, op.lists, r.spill)
	return append(b, '}'), http.StatusOK
}

func (awsJSON) encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte {
	header.Set("Content-Type", contentTypeOf(service))
	if service.queryCompatible && r.Header.Get("X-Amzn-Query-Mode") == "true" {
		// awsQueryCompatible: what the error was called before the service spoke JSON.
		header.Set("X-Amzn-Query-Error", f.queryCode()+";"+f.faultOf("Sender", "Receiver"))
	}
	name := f.code
	if service.Protocol != AWSJSON11 && f.modeled != nil {
		name = "com.amazonaws." + service.SigningName + "#" + name
	}
	b = append(b, '{')
	b = appendJSONField(b, "__type", name)
	b = f.appendJSON(b)
	return append(b, '}')
}

func contentTypeOf(service *Service) string {
	switch service.Protocol {
	case AWSJSON10, RPCv2CBOR:
		return "application/x-amz-json-1.0"
	case AWSJSON11:
		return "application/x-amz-json-1.1"
	}
	return "application/json"
}

// unknownOperation returns the error of the JSON protocols for an operation that the service lacks.
func unknownOperation(service *Service, name string) error {
	message := "The operation " + name + " is not an operation of " + service.SigningName + "."
	if name == "" {
		message = "The request names no operation: the header X-Amz-Target is missing."
	}
	status := http.StatusBadRequest
	if service.Protocol == RestJSON1 {
		status = http.StatusNotFound
	}
	return &Error{Code: "UnknownOperationException", Message: message, Status: status}
}
