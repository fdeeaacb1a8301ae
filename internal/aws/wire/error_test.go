package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestErrorsInTheFormOfEachProtocol(t *testing.T) {
	p := &policy{deny: []string{"eks:DeleteCluster", "iam:PassRole", "iam:ListRoles", "eks:ListClusters"}}
	m := newMux(t, p)
	form := "application/x-www-form-urlencoded"
	tests := []struct {
		name, service, secret      string
		age                        time.Duration
		method, path, target, body string
		status                     int
		errorType                  string
		contains                   []string
	}{
		{name: "modeled exception, restJson1", service: "eks", secret: "secret", method: "GET",
			path:   "/clusters/absent",
			status: 404, errorType: "ResourceNotFoundException",
			contains: []string{`"message":"No cluster found for name: absent."`, `"clusterName":"absent"`}},
		{name: "modeled exception, awsQuery", service: "iam", secret: "secret", method: "POST", path: "/",
			body:   "Action=GetRole&RoleName=r&Version=2010-05-08",
			status: 404, contains: []string{"<ErrorResponse xmlns=", "<Type>Sender</Type>", "<Code>NoSuchEntity</Code>",
				"<Message>The role with name r cannot be found.</Message>", "<RequestId>"}},
		{name: "internal failure hides its cause", service: "eks", secret: "secret", method: "GET",
			path: "/clusters/broken", status: 500, errorType: "InternalFailure", contains: []string{"request id"}},
		{name: "panic", service: "eks", secret: "secret", method: "GET", path: "/clusters/panic", status: 500,
			errorType: "InternalFailure"},
		{name: "denied, restJson1", service: "eks", secret: "secret", method: "GET", path: "/clusters", status: 403,
			errorType: "AccessDeniedException",
			contains: []string{
				"User: arn:aws:iam::111122223333:user/alice is not authorized to perform: eks:ListClusters on " +
					"resource: * because no identity-based policy allows the eks:ListClusters action"}},
		{name: "denied, awsQuery", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403, contains: []string{"<Code>AccessDenied</Code>"}},
		{name: "PassRole denied inside the handler", service: "eks", secret: "secret", method: "POST",
			path: "/clusters",
			body: `{"name":"x","roleArn":"arn:aws:iam::111122223333:role/r","resourcesVpcConfig":{}}`, status: 403,
			errorType: "AccessDeniedException",
			contains:  []string{"iam:PassRole on resource: arn:aws:iam::111122223333:role/r"}},
		{name: "unsigned, restJson1", method: "GET", path: "/clusters", status: 403,
			errorType: "MissingAuthenticationTokenException"},
		{name: "unsigned, awsQuery", method: "POST", path: "/", body: "Action=ListRoles&Version=2010-05-08",
			status: 403, contains: []string{"<Code>MissingAuthenticationToken</Code>"}},
		{name: "unsigned, ec2Query", method: "POST", path: "/", body: "Action=DescribeVpcs&Version=2016-11-15",
			status: 403, contains: []string{"<Response><Errors><Error><Code>MissingAuthenticationToken</Code>"}},
		{name: "unsigned, awsJson1.1", method: "POST", path: "/", target: "TrentService.ListKeys", body: "{}",
			status: 400, contains: []string{`"__type":"MissingAuthenticationTokenException"`}},
		{name: "wrong secret, restJson1", service: "eks", secret: "guess", method: "GET", path: "/clusters",
			status: 403, errorType: "InvalidSignatureException"},
		{name: "wrong secret, awsQuery", service: "iam", secret: "guess", method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403,
			contains: []string{"<Code>SignatureDoesNotMatch</Code>"}},
		{name: "wrong secret, ec2Query", service: "ec2", secret: "guess", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 401,
			contains: []string{"<Code>AuthFailure</Code>"}},
		{name: "unknown key, awsJson1.1", service: "kms", secret: "unknown", method: "POST", path: "/",
			target: "TrentService.ListKeys", body: "{}", status: 400,
			contains: []string{`"__type":"UnrecognizedClientException"`}},
		{name: "unknown key, awsQuery", service: "sts", secret: "unknown", method: "POST", path: "/",
			body: "Action=GetCallerIdentity&Version=2011-06-15", status: 403,
			contains: []string{"<Code>InvalidClientTokenId</Code>"}},
		{name: "expired session, restJson1", service: "eks", secret: "expired", method: "GET", path: "/clusters",
			status: 403, errorType: "ExpiredTokenException"},
		{name: "expired session, ec2Query", service: "ec2", secret: "expired", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 400,
			contains: []string{"<Code>RequestExpired</Code>"}},
		{name: "old signature", service: "iam", secret: "secret", age: time.Hour, method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403,
			contains: []string{"<Code>SignatureDoesNotMatch</Code>", "Signature expired"}},
		{name: "not served, restJson1", service: "eks", secret: "secret", method: "DELETE", path: "/clusters/x",
			status: 501, errorType: "NotImplemented",
			contains: []string{"DeleteCluster is not implemented by coracle"}},
		{name: "not served, ec2Query", service: "ec2", secret: "secret", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 501,
			contains: []string{"<Code>UnsupportedOperation</Code>", "DescribeVpcs is not implemented by coracle"}},
		{name: "no operation served, awsQuery", service: "cloudformation", secret: "secret", method: "POST", path: "/",
			body: "Action=ListStacks&Version=2010-05-15", status: 501,
			contains: []string{"<Code>NotImplemented</Code>", "ListStacks is not implemented by coracle"}},
		{name: "no operation served, awsJson1.1", service: "kms", secret: "secret", method: "POST", path: "/",
			target: "TrentService.ListKeys", body: "{}", status: 501,
			contains: []string{`"NotImplemented"`, "ListKeys is not implemented by coracle"}},
		{name: "unknown path", service: "eks", secret: "secret", method: "GET", path: "/unicorns", status: 404,
			errorType: "UnknownOperationException"},
		{name: "unknown action", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=GetUnicorn&Version=2010-05-08", status: 400, contains: []string{"<Code>InvalidAction</Code>",
				"Could not find operation GetUnicorn for version 2010-05-08"}},
		{name: "unknown target", service: "kms", secret: "secret", method: "POST", path: "/",
			target: "TrentService.Unicorn", body: "{}", status: 400, contains: []string{"UnknownOperationException"}},
		{name: "unknown service", service: "braket", secret: "secret", method: "GET", path: "/", status: 501,
			errorType: "UnknownService", contains: []string{"braket"}},
		{name: "not JSON", service: "eks", secret: "secret", method: "POST", path: "/clusters", body: `{"name":`,
			status: 400, errorType: "SerializationException"},
		{name: "wrong type", service: "eks", secret: "secret", method: "POST", path: "/clusters", body: `{"name":7}`,
			status: 400, errorType: "SerializationException"},
		{name: "missing members", service: "eks", secret: "secret", method: "POST", path: "/clusters",
			body: `{"name":"x"}`, status: 400, errorType: "InvalidParameterException",
			contains: []string{
				"2 validation errors detected: Value null at 'resourcesVpcConfig' failed to satisfy constraint: " +
					"Member must not be null; Value null at 'roleArn'"}},
		{name: "pattern", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=GetRole&RoleName=a%20b&Version=2010-05-08", status: 400,
			contains: []string{"<Code>ValidationError</Code>",
				"1 validation error detected: Value &#39;a b&#39; at &#39;roleName&#39; failed to satisfy " +
					"constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]+"}},
		{name: "body too large", service: "eks", secret: "secret", method: "POST", path: "/clusters",
			body: strings.Repeat(" ", 1<<16+1), status: 413, errorType: "RequestEntityTooLarge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "http://coracle.test"+tt.path, strings.NewReader(tt.body))
			switch {
			case tt.target != "":
				r.Header.Set("X-Amz-Target", tt.target)
				r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			case strings.HasPrefix(tt.body, "Action="):
				r.Header.Set("Content-Type", form)
			}
			status, header, body := send(t, m, tt.service, tt.secret, time.Now().Add(-tt.age), r, tt.body)
			if status != tt.status || header.Get("X-Amzn-Errortype") != tt.errorType {
				t.Errorf("status %d, error type %q; want %d, %q\n%s", status, header.Get("X-Amzn-Errortype"), tt.status,
					tt.errorType, body)
			}
			for _, c := range tt.contains {
				if !strings.Contains(body, c) {
					t.Errorf("the body lacks %s\n%s", c, body)
				}
			}
			if strings.Contains(body, "disk full") || strings.Contains(body, "nil map") {
				t.Errorf("the cause is shown to the caller: %s", body)
			}
			if header.Get("X-Amzn-Requestid") == "" {
				t.Error("no request id")
			}
		})
	}
}

func TestGenericErrorKeepsItsCode(t *testing.T) {
	_, err := eks.NewFromConfig(config(newMux(t, &policy{}))).DeleteCluster(t.Context(),
		&eks.DeleteClusterInput{Name: aws.String("x")})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "NotImplemented" {
		t.Errorf("got %v", err)
	}
}

func TestErrorBodyIsJSON(t *testing.T) {
	m := newMux(t, &policy{})
	r := httptest.NewRequest("GET", "http://coracle.test/clusters/absent", nil)
	_, _, body := send(t, m, "eks", "secret", time.Now(), r, "")
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Errorf("%s: %v", body, err)
	}
}

// A message that quotes a request is not as large as the request.
func TestErrorsOfRequestsAreCut(t *testing.T) {
	t.Parallel()
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}})
	m.Register(wire.EC2, wire.Handle(func(context.Context, *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
		return nil, wire.Errorf("InvalidParameterValue", "x%s is wrong", strings.Repeat("é", 1<<20))
	}, wire.OnAll))
	m.Register(wire.EKS, wire.Handle(func(context.Context, *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
		long := strings.Repeat("é", 1<<20)
		return nil, &ekstypes.ResourceNotFoundException{Message: &long, ClusterName: &long}
	}, wire.OnAll))
	m.Register(wire.Logs, wire.Handle(func(context.Context, *cloudwatchlogs.StartQueryInput) (
		*cloudwatchlogs.StartQueryOutput, error) {
		long := strings.Repeat("x", 3<<10)
		return nil, &logtypes.MalformedQueryException{Message: &long,
			QueryCompileError: &logtypes.QueryCompileError{Message: &long}}
	}, wire.OnAll))
	for name, test := range map[string]struct{ service, method, path, body, want string }{
		"a code, in XML": {"ec2", "POST", "/", "Action=DescribeVpcs&Version=2016-11-15",
			"<Code>InvalidParameterValue</Code><Message>xéé"},
		"an exception, in JSON": {"eks", "GET", "/clusters/a", "", `"__type":"ResourceNotFoundException","message":"éé`},
		"members of an exception": {"logs", "POST", "/",
			`{"startTime":1,"endTime":1,"queryString":"a","logGroupName":"a"}`,
			`{"__type":"MalformedQueryException","message":"xxx`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(test.method, "http://coracle.test"+test.path, strings.NewReader(test.body))
			switch test.service {
			case "ec2":
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			case "logs":
				r.Header.Set("X-Amz-Target", "Logs_20140328.StartQuery")
				r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			}
			status, _, body := send(t, m, test.service, "secret", time.Now(), r, test.body)
			if status < 400 || status >= 500 || len(body) > 5<<10 || !utf8.ValidString(body) ||
				strings.ContainsRune(body, utf8.RuneError) || !strings.Contains(body, test.want) ||
				test.service == "ec2" && !strings.Contains(body, "éé...éé") ||
				test.service == "ec2" && !strings.Contains(body, "éé is wrong</Message>") {
				t.Errorf("status %d, %d bytes: %.200s", status, len(body), body)
			}
		})
	}
}
