package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/shield"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/wafregional"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
	"github.com/aws/smithy-go/middleware"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// rig is a Mux that serves every operation of every service, and an SDK client of each.
type rig struct {
	mux     *wire.Mux
	clients map[*wire.Service]reflect.Value
	answers sync.Map // "iam.GetRole" -> func(input any) (output any, err error)
	ops     map[string]wire.Operation
}

var theRig = sync.OnceValue(newRig)

func newRig() *rig {
	r := &rig{ops: map[string]wire.Operation{}}
	r.mux = wire.NewMux(wire.Options{Credentials: anyone{}, Authorizer: anything{},
		Logger: slog.New(slog.DiscardHandler)})
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://coracle.test"), HTTPClient: transport{r.mux.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		// As the SDK's own snapshot tests have it: send what we say, checked or not, and as it is.
		APIOptions: []func(*middleware.Stack) error{func(stack *middleware.Stack) error {
			stack.Initialize.Remove("OperationInputValidation")
			stack.Serialize.Remove("RequestCompression")
			return nil
		}},
	}
	r.clients = map[*wire.Service]reflect.Value{
		wire.ACM:            reflect.ValueOf(acm.NewFromConfig(cfg)),
		wire.AutoScaling:    reflect.ValueOf(autoscaling.NewFromConfig(cfg)),
		wire.CloudFormation: reflect.ValueOf(cloudformation.NewFromConfig(cfg)),
		wire.CloudTrail:     reflect.ValueOf(cloudtrail.NewFromConfig(cfg)),
		wire.CloudWatch:     reflect.ValueOf(cloudwatch.NewFromConfig(cfg)),
		wire.Logs:           reflect.ValueOf(cloudwatchlogs.NewFromConfig(cfg)),
		wire.EC2:            reflect.ValueOf(ec2.NewFromConfig(cfg)),
		wire.ECR:            reflect.ValueOf(ecr.NewFromConfig(cfg)),
		wire.EFS:            reflect.ValueOf(efs.NewFromConfig(cfg)),
		wire.EKS:            reflect.ValueOf(eks.NewFromConfig(cfg)),
		wire.EKSAuth:        reflect.ValueOf(eksauth.NewFromConfig(cfg)),
		wire.ELB:            reflect.ValueOf(elasticloadbalancing.NewFromConfig(cfg)),
		wire.ELBv2:          reflect.ValueOf(elasticloadbalancingv2.NewFromConfig(cfg)),
		wire.IAM:            reflect.ValueOf(iam.NewFromConfig(cfg)),
		wire.KMS:            reflect.ValueOf(kms.NewFromConfig(cfg)),
		wire.Shield:         reflect.ValueOf(shield.NewFromConfig(cfg)),
		// SQS clients compare checksums of messages with those in the answer; generated ones do not fit.
		wire.SQS: reflect.ValueOf(sqs.NewFromConfig(cfg,
			func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })),
		wire.SSM: reflect.ValueOf(ssm.NewFromConfig(cfg)),
		wire.STS: reflect.ValueOf(sts.NewFromConfig(cfg)),

		wire.WAFRegional: reflect.ValueOf(wafregional.NewFromConfig(cfg)),
		wire.WAFv2:       reflect.ValueOf(wafv2.NewFromConfig(cfg)),
	}
	r.mux.Register(
		wire.STS,
		wire.HandleUnsigned(func(_ context.Context, in *sts.AssumeRoleWithSAMLInput) (*sts.AssumeRoleWithSAMLOutput, error) {
			return answerOf[*sts.AssumeRoleWithSAMLOutput](r, "sts.AssumeRoleWithSAML", in)
		}),
		wire.HandleUnsigned(func(
			_ context.Context, in *sts.AssumeRoleWithWebIdentityInput,
		) (*sts.AssumeRoleWithWebIdentityOutput, error) {
			return answerOf[*sts.AssumeRoleWithWebIdentityOutput](r, "sts.AssumeRoleWithWebIdentity", in)
		}),
	)
	for _, op := range r.mux.Operations() {
		if op.Served { // which SDK clients send without a signature
			continue
		}
		call := r.clients[op.Service].MethodByName(op.Name).Type()
		key := op.Service.Name + "." + op.Name
		if op.EventStream {
			r.mux.Register(op.Service, wire.HandleFunc(op.Name, r.streamHandler(key, call)))
			continue
		}
		handler := reflect.FuncOf([]reflect.Type{call.In(0), call.In(1)}, []reflect.Type{call.Out(0), call.Out(1)},
			false)
		function := reflect.MakeFunc(handler, func(args []reflect.Value) []reflect.Value {
			out, err := answerOf[any](r, key, args[1].Interface())
			if err != nil {
				return []reflect.Value{reflect.Zero(call.Out(0)), reflect.ValueOf(&err).Elem()}
			}
			return []reflect.Value{reflect.ValueOf(out), reflect.Zero(call.Out(1))}
		})
		r.mux.Register(op.Service, wire.HandleFunc(op.Name, function.Interface()))
	}
	for _, op := range r.mux.Operations() {
		r.ops[op.Service.Name+"."+op.Name] = op
	}
	return r
}

// answerOf returns what the test wants an operation to answer.
func answerOf[Out any](r *rig, key string, input any) (out Out, err error) {
	answer, ok := r.answers.Load(key)
	if !ok {
		return out, errors.New("no answer")
	}
	got, err := answer.(func(any) (any, error))(input)
	if err != nil {
		return out, err
	}
	return got.(Out), nil
}

// call lets the SDK client call an operation.
func (r *rig) call(ctx context.Context, op wire.Operation, input any) (any, error) {
	results := r.clients[op.Service].MethodByName(op.Name).Call([]reflect.Value{reflect.ValueOf(ctx),
		reflect.ValueOf(input)})
	if err := results[1]; !err.IsNil() {
		return nil, err.Interface().(error)
	}
	return results[0].Interface(), nil
}

// types are the input and output structures of an operation.
func (r *rig) types(op wire.Operation) (in, out reflect.Type) {
	call := r.clients[op.Service].MethodByName(op.Name).Type()
	return call.In(1).Elem(), call.Out(0).Elem()
}

// each runs a subtest per service with its operations, in parallel, and prints how many passed.
func (r *rig) each(t *testing.T, what string, test func(t *testing.T, op wire.Operation) error) {
	byService := map[*wire.Service][]wire.Operation{}
	for _, op := range r.mux.Operations() {
		byService[op.Service] = append(byService[op.Service], op)
	}
	for _, service := range wire.Services() {
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			passed, total := 0, 0
			for _, op := range byService[service] {
				total++
				if err := test(t, op); err != nil {
					t.Errorf("%s: %v", op.Name, err)
					continue
				}
				passed++
			}
			fmt.Printf("%-24s %s: %d of %d operations\n", service.Name, what, passed, total)
		})
	}
}

// transport answers from the Mux, or keeps the request when the context asks for that.
type transport struct{ http.RoundTripper }

type captureKey struct{}

type capture struct {
	request *http.Request
	body    []byte
}

var errCaptured = errors.New("request captured")

// Do makes transport an aws.HTTPClient.
func (t transport) Do(r *http.Request) (*http.Response, error) {
	if reply, ok := r.Context().Value(replyKey{}).(*http.Response); ok {
		reply.Request = r
		return reply, nil
	}
	c, ok := r.Context().Value(captureKey{}).(*capture)
	if !ok {
		return t.RoundTrip(r)
	}
	c.request = r
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		c.body = body
	}
	return nil, errCaptured
}

// replyKey is the context key of a response that the client is given instead of asking the Mux.
type replyKey struct{}

func reply(status int, header http.Header, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
}

type anyone struct{}

func (anyone) Lookup(context.Context, string, string) (string, wire.Caller, error) {
	return "secret", wire.Caller{Account: "111122223333", ARN: "arn:aws:iam::111122223333:root"}, nil
}

type anything struct{}

func (anything) Authorize(context.Context, wire.Caller, []wire.Target) error { return nil }

// sdkDir returns the directory of a service's SDK module.
func sdkDir(t testing.TB, service *wire.Service) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/aws/aws-sdk-go-v2/service/"+service.Name).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// snapshots lists the files of a snapshot directory by operation or error name; none when the module has no such
// directory.
func snapshots(t testing.TB, service *wire.Service, dir, suffix string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(sdkDir(t, service), dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, p := range paths {
		files[strings.TrimSuffix(filepath.Base(p), suffix)] = p
	}
	return files
}
