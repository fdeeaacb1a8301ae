package wire

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
)

// query is awsQuery and ec2Query: parameters in a form, answers in XML.
// https://smithy.io/2.0/aws/protocols/aws-query-protocol.html
// https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html
type query struct{ ec2 bool }

func (q query) operation(m *Mux, service *Service, r *request) (*operation, error) {
	form, err := r.parameters()
	if err != nil {
		return nil, err
	}
	action := form.Get("Action")
	if action == "" {
		return nil, &Error{Code: "MissingAction", Message: "The request must contain the parameter Action",
			Status: http.StatusBadRequest}
	}
	if op := m.operation(service, action); op != nil {
		return op, nil
	}
	if q.ec2 {
		return nil, &Error{Code: "InvalidAction",
			Message: fmt.Sprintf("The action %s is not valid for this web service.", action),
			Status:  http.StatusBadRequest}
	}
	version := form.Get("Version")
	if version == "" {
		version = service.APIVersion
	}
	return nil, &Error{Code: "InvalidAction", Message: fmt.Sprintf("Could not find operation %s for version %s", action,
		version), Status: http.StatusBadRequest}
}

func (q query) decodeRequest(op *operation, r *request, in reflect.Value) error {
	form, err := r.parameters()
	if err != nil {
		return err
	}
	root, err := parseQuery(form)
	if err == nil {
		err = decodeQuery(op.input, false, q.ec2, root, in)
	}
	var bad *malformed
	if errors.As(err, &bad) {
		code := "MalformedInput"
		if q.ec2 {
			code = "InvalidParameterValue"
		}
		return &Error{Code: code, Message: bad.message, Status: http.StatusBadRequest}
	}
	if err != nil {
		return err
	}
	if q.ec2 {
		// EC2 is the only one that minds what it does not know. The rest of the form belongs to the request itself.
		for name, n := range root.children {
			if name == "Action" || name == "Version" || strings.HasPrefix(name, "X-Amz-") {
				n.used = true
			}
		}
		if name := root.firstUnused(); name != "" {
			return &Error{Code: "UnknownParameter", Message: fmt.Sprintf("The parameter %s is not recognized", name),
				Status: http.StatusBadRequest}
		}
	}
	return nil
}

// decodedSize counts the parameters of a form, and the parts of their names, each of which is a node of a tree.
func (query) decodedSize(r *request) int64 {
	nodes := countNames(r.URL.RawQuery) + countNames(r.body)
	return valueMemory * int64(min(nodes, maxNodes))
}

// countNames returns how many parts the names of a form have, which dots divide.
func countNames[T string | []byte](form T) (n int) {
	if len(form) == 0 {
		return 0
	}
	name := true
	for i := range len(form) {
		switch c := form[i]; {
		case c == '&':
			name = true
			n++
		case c == '=':
			name = false
		case c == '.' && name, c == '%' && name: // which may be a dot
			n++
		}
	}
	return n + 1
}

func (q query) encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) (
	[]byte, int) {
	response := op.name + "Response"
	b = q.appendPrologue(b, header, response, op.service.XMLNamespace)
	if q.ec2 {
		b = appendElement(b, "requestId", r.id)
		if len(op.output.fields) == 0 {
			// What EC2 has said since its first version; older clients look for it.
			b = appendElement(b, "return", "true")
		}
		b = appendXMLMembers(b, op.output, out, op.lists, r.spill)
		return appendClose(b, response), http.StatusOK
	}
	if _, void := smithy.SchemaTrait[*traits.UnitShape](op.schema.Output); !void {
		b = appendOpen(b, op.name+"Result")
		b = appendXMLMembers(b, op.output, out, op.lists, r.spill)
		b = appendClose(b, op.name+"Result")
	}
	b = append(b, "<ResponseMetadata>"...)
	b = appendElement(b, "RequestId", r.id)
	b = append(b, "</ResponseMetadata>"...)
	return appendClose(b, response), http.StatusOK
}

func (q query) appendPrologue(b []byte, header http.Header, root, namespace string) []byte {
	header.Set("Content-Type", "text/xml;charset=UTF-8")
	if q.ec2 {
		b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"...)
	}
	b = append(b, '<')
	b = append(b, root...)
	if namespace != "" {
		b = append(b, ` xmlns="`...)
		b = append(b, namespace...)
		b = append(b, '"')
	}
	return append(b, '>')
}

func (q query) encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte {
	if q.ec2 {
		b = q.appendPrologue(b, header, "Response", "")
		b = append(b, "<Errors><Error>"...)
		b = appendElement(b, "Code", f.code)
		b = appendElement(b, "Message", f.message)
		b = append(b, "</Error></Errors>"...)
		b = appendElement(b, "RequestID", r.id)
		return append(b, "</Response>"...)
	}
	b = q.appendPrologue(b, header, "ErrorResponse", service.XMLNamespace)
	b = append(b, "<Error>"...)
	b = appendElement(b, "Type", f.faultOf("Sender", "Receiver"))
	b = appendElement(b, "Code", f.queryCode())
	b = f.appendXML(b)
	b = append(b, "</Error>"...)
	b = appendElement(b, "RequestId", r.id)
	return append(b, "</ErrorResponse>"...)
}
