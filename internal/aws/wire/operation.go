package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// operation is one operation as the Mux needs it: its schemas, and for one that is served its method and plans.
type operation struct {
	service *Service
	name    string
	action  string // eks:DescribeCluster
	schema  *smithy.OperationSchema
	http    *traits.HTTP // restJson1
	labels  []string     // of the URI, in order
	lists   bool         // an answer whose top-level lists are there even when they are empty
	reads   bool         // it changes nothing, so that it may be refused once it has been carried out
	served  *served

	once          sync.Once
	input, output *plan
	events        *eventPlan // of an operation that answers with events and is served
	bodyMembers   bool       // restJson1: the input has members in the body
}

func newOperation(service *Service, name string, schema *smithy.OperationSchema, s *served) *operation {
	return &operation{
		service: service, name: name, action: service.ActionPrefix + ":" + name, schema: schema, served: s,
		lists: strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Describe"),
		reads: slices.ContainsFunc([]string{"List", "Describe", "Get", "BatchGet", "Filter"},
			func(verb string) bool { return strings.HasPrefix(name, verb) }),
	}
}

// prepare makes the plans, at the operation's first request.
func (op *operation) prepare() {
	op.once.Do(func() { op.buildPlans(op.served.in, op.served.out) })
}

func (op *operation) buildPlans(in, out reflect.Type) {
	p := plannerOf(op.service)
	op.input, op.output = p.planFor(in, op.schema.Input), p.planFor(out, op.schema.Output)
	if op.served.events != nil {
		op.events = p.planStream(op.served.events, streamSchema(op.schema))
	}
	for _, f := range op.input.fields {
		if f.bind == inBody {
			op.bodyMembers = true
		}
	}
}

// operation returns the operation of a service with that name, nil when the SDK does not know it.
func (m *Mux) operation(service *Service, name string) *operation {
	m.mu.RLock()
	op := m.operations[service][name]
	m.mu.RUnlock()
	if op != nil {
		return op
	}
	schema, ok := model.Load(service.Name).Operation(name)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.operations[service] == nil {
		m.operations[service] = map[string]*operation{}
	}
	if op := m.operations[service][name]; op != nil {
		return op
	}
	op = newOperation(service, name, schema, m.registered[service][name])
	m.operations[service][name] = op
	return op
}

// routesFor returns the tree of a restJson1 service.
func (m *Mux) routesFor(service *Service) *routes {
	m.mu.RLock()
	tree := m.routers[service]
	m.mu.RUnlock()
	if tree != nil {
		return tree
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if tree := m.routers[service]; tree != nil {
		return tree
	}
	tree = &routes{}
	known := model.Load(service.Name)
	for _, name := range known.Operations() {
		schema, _ := known.Operation(name)
		tree.addRoute(newOperation(service, name, schema, m.registered[service][name]))
	}
	m.routers[service] = tree
	return tree
}

// Operation is an operation that the SDK knows.
type Operation struct {
	Service      *Service
	Name         string
	Served       bool
	Unsigned     bool // served without a signature
	Unrestricted bool // served without a permission
	EventStream  bool // its answer is a stream of events

	in, out reflect.Type
}

// Operations lists every operation of every service that wire knows, by service and name: the coverage table.
func (m *Mux) Operations() []Operation {
	var list []Operation
	for _, service := range Services() {
		known := model.Load(service.Name)
		for _, name := range known.Operations() {
			schema, _ := known.Operation(name)
			o := Operation{Service: service, Name: name, EventStream: schema.IsOutputEventStream()}
			if s := m.registered[service][name]; s != nil {
				o.Served, o.Unsigned, o.Unrestricted = true, s.unsigned, s.unrestricted
				o.in, o.out = s.in, s.out
			}
			list = append(list, o)
		}
	}
	return list
}

// MinimalInput returns a pointer to an input structure in which every required member has a value that satisfies its
// constraints. It panics for an operation that is not served, whose Go types wire does not know.
func (o Operation) MinimalInput() any {
	if o.in == nil {
		panic(fmt.Sprintf("wire: %s of %s is not served", o.Name, o.Service.Name))
	}
	in := reflect.New(o.in)
	schema, _ := model.Load(o.Service.Name).Operation(o.Name)
	fillRequired(plannerOf(o.Service).planFor(o.in, schema.Input), in.Elem(), 0)
	return in.Interface()
}

// NewRequest encodes an input, such as a changed MinimalInput, as a client would, for a server at base
// ("http://127.0.0.1:4566"). It is not signed.
func (o Operation) NewRequest(base string, input any) (*http.Request, error) {
	schema, _ := model.Load(o.Service.Name).Operation(o.Name)
	op := newOperation(o.Service, o.Name, schema, nil)
	in := reflect.ValueOf(input).Elem()
	p := plannerOf(o.Service)
	op.input = p.planFor(in.Type(), schema.Input)
	for _, f := range op.input.fields {
		op.bodyMembers = op.bodyMembers || f.bind == inBody
	}
	method, uri, body, contentType := http.MethodPost, "/", []byte(nil), contentTypeOf(o.Service)
	switch o.Service.Protocol {
	case RestJSON1:
		(&routes{}).addRoute(op)
		method = op.http.Method
		uri, body = restJSON{}.encodeRequest(op, in)
	case AWSJSON10, AWSJSON11, RPCv2CBOR:
		body = append(body, '{')
		body, _ = appendJSONMembers(body, op.input, in, false, nil)
		body = append(body, '}')
	default:
		values := url.Values{"Action": {o.Name}, "Version": {o.Service.APIVersion}}
		addQuery(values, op.input, false, o.Service.Protocol == EC2Query, "", in)
		body, contentType = []byte(values.Encode()), "application/x-www-form-urlencoded; charset=utf-8"
	}
	r, err := http.NewRequest(method, base+uri, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", contentType)
	}
	if o.Service.TargetPrefix != "" {
		r.Header.Set("X-Amz-Target", o.Service.TargetPrefix+"."+o.Name)
	}
	return r, nil
}
