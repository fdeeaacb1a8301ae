package forward

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Service is one that can be forwarded.
type Service struct {
	Name string // in signatures, flags and credentials: s3
	wire *wire.Service
	// read returns what a request asks for.
	read func(*wire.Forwarded) (*call, error)
}

// services are those that can be forwarded.
var services = []*Service{
	{Name: "dynamodb", read: readDynamoDB, wire: &wire.Service{
		Name: "dynamodb", SigningName: "dynamodb", ActionPrefix: "dynamodb", Protocol: wire.AWSJSON10,
	}},
	{Name: "s3", read: readS3, wire: &wire.Service{
		Name: "s3", SigningName: "s3", ActionPrefix: "s3", Protocol: wire.RestXML, BodyLimit: s3BodyLimit,
	}},
	{Name: "secretsmanager", read: readSecretsManager, wire: &wire.Service{
		Name: "secretsmanager", SigningName: "secretsmanager", ActionPrefix: "secretsmanager", Protocol: wire.AWSJSON11,
	}},
}

// Names returns the names of the services that can be forwarded.
func Names() (all []string) {
	for _, s := range services {
		all = append(all, s.Name)
	}
	return all
}

// Endpoint is one of the operator's, for a service.
type Endpoint struct {
	Service *Service
	URL     *url.URL // scheme and host alone
}

// String returns the endpoint as [Parse] reads it.
func (e Endpoint) String() string { return e.Service.Name + "=" + e.URL.String() }

// Parse reads endpoints: "s3=http://127.0.0.1:9000". Each service has one.
func Parse(texts []string) (all []Endpoint, err error) {
	for _, text := range texts {
		e, err := parseEndpoint(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if slices.ContainsFunc(all, func(o Endpoint) bool { return o.Service == e.Service }) {
			return nil, fmt.Errorf("%q: %s is forwarded to another endpoint already", text, e.Service.Name)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseEndpoint(text string) (e Endpoint, err error) {
	name, address, ok := strings.Cut(text, "=")
	if !ok {
		return e, errors.New("it is not SERVICE=URL, such as s3=http://127.0.0.1:9000")
	}
	i := slices.IndexFunc(services, func(s *Service) bool { return s.Name == name })
	if i < 0 {
		if isServed(name) {
			return e, fmt.Errorf("coracle serves %s itself", name)
		}
		return e, fmt.Errorf("%q is none of the services that coracle can forward: %s", name,
			strings.Join(Names(), ", "))
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return e, fmt.Errorf("the URL cannot be read: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return e, errors.New("the URL is not one of http:// or https:// with a host")
	case u.User != nil:
		return e, errors.New("the URL has a password: write credentials to the file forward-credentials")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return e, errors.New("the URL has more than a host: signatures are of paths")
	}
	return Endpoint{services[i], &url.URL{Scheme: u.Scheme, Host: u.Host}}, nil
}

// isServed reports whether a service, by a name that users know it by, has operations here. SQS has none, and is not
// forwarded either.
func isServed(name string) bool {
	return slices.ContainsFunc(wire.Services(), func(s *wire.Service) bool {
		return s != wire.SQS && (s.SigningName == name || s.Name == name)
	})
}
