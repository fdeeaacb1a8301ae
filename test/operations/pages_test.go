package operations_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	cloudformationservice "github.com/coracle-eks/coracle/internal/aws/cloudformation"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/test/awsclient"
	"github.com/coracle-eks/coracle/test/operations"
)

// sizeMembers and tokenMembers are how the inputs of operations that list something name the size of a page and its
// beginning.
var (
	sizeMembers  = []string{"MaxResults", "MaxItems", "MaxRecords", "PageSize", "Limit"}
	tokenMembers = []string{"NextToken", "Marker", "NextMarker"}
)

// TestSizesOfPages asks every operation that lists something for pages of the sizes at the limits of AWS, and beyond.
func TestSizesOfPages(t *testing.T) {
	t.Parallel()
	f := newPageFixture(t)
	unused := map[string]bool{}
	for name := range pages {
		unused[name] = true
	}
	for _, op := range daemon.Operations() {
		if !op.Served {
			continue
		}
		input := reflect.TypeOf(op.MinimalInput()).Elem()
		size, token := memberOf(input, sizeMembers), memberOf(input, tokenMembers)
		if size == "" && token == "" {
			continue
		}
		name := op.Service.Name + ":" + op.Name
		row, known := pages[name]
		delete(unused, name)
		switch {
		case !known:
			t.Errorf("%s has %s %s, and no row in pages", name, size, token)
		case row.tokenOnly != (size == ""):
			t.Errorf("%s has the member %q for the size of a page, which its row does not say", name, size)
		case size != "":
			f.checkSizes(t, name, op, size, row)
		}
	}
	for name := range unused {
		t.Errorf("pages has a row for %s, which is not served", name)
	}
}

func memberOf(input reflect.Type, names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { _, has := input.FieldByName(name); return has })
	if i < 0 {
		return ""
	}
	return names[i]
}

// checkSizes asks for pages of the smallest and the largest size, and of one less and one more.
func (f *pageFixture) checkSizes(t *testing.T, name string, op wire.Operation, member string, row sizes) {
	t.Helper()
	usual := f.ask(t, op, member, row.ids, nil)
	accept := func(n int32) { // as without a size: what is asked for need not exist
		t.Helper()
		if got := f.ask(t, op, member, "", &n); got.code != usual.code || got.message != usual.message {
			t.Errorf("%s with %s %d: %+v, want %+v", name, member, n, got, usual)
		}
	}
	refuse := func(n int32, ids, code, message string) {
		t.Helper()
		if got := f.ask(t, op, member, ids, &n); got.code != code || got.message != message {
			t.Errorf("%s with %s %d %s: %+v, want %s: %s", name, member, n, ids, got, code, message)
		}
	}
	code := cmp.Or(row.code, map[string]string{"autoscaling": "ValidationError", "cloudformation": "ValidationError",
		"cloudwatchlogs": "InvalidParameterException", "ec2": "InvalidParameterValue", "ecr": "InvalidParameterException",
		"eks": "InvalidParameterException", "elasticloadbalancing": "ValidationError",
		"elasticloadbalancingv2": "ValidationError", "iam": "ValidationError",
	}[op.Service.Name], "ValidationException")
	accept(row.min)
	if row.min > 0 || row.small != "" {
		refuse(row.min-1, "", code, row.text(op.Service, member, row.min-1, row.small, "greater than or equal to", row.min))
	}
	switch {
	case row.max == 0:
		accept(2000)
	case row.capped:
		accept(row.max)
		accept(row.max + 1)
	default:
		accept(row.max)
		refuse(row.max+1, "", code, row.text(op.Service, member, row.max+1, row.large, "less than or equal to", row.max))
	}
	if row.ids != "" {
		refuse(max(row.min, 5), row.ids, "InvalidParameterCombination", row.both)
	}
}

// text returns what the error of a size says: the row's own text, or that of a constraint of the model.
func (s sizes) text(service *wire.Service, member string, n int32, own, bound string, limit int32) string {
	switch {
	case strings.Contains(own, "%d"):
		return fmt.Sprintf(own, n)
	case own != "":
		return own
	case service == wire.ECR:
		return fmt.Sprintf("Invalid parameter at 'maxResults' failed to satisfy constraint: 'must have value %s %d'", bound,
			limit)
	}
	return fmt.Sprintf("1 validation error detected: Value '%d' at '%s' failed to satisfy constraint: "+
		"Member must have value %s %d", n, strings.ToLower(member[:1])+member[1:], bound, limit)
}

// pageFixture serves all services in this process.
type pageFixture struct {
	*iamtest.AWS
	key string // of KMS
}

func newPageFixture(t *testing.T) *pageFixture {
	t.Helper()
	f := &pageFixture{AWS: iamtest.New(t)}
	operations.Register(t, f.AWS, f.Mux)
	kmsservice.New(kmsservice.Options{Store: f.Store}).Register(f.Mux)
	cloudformationservice.New(cloudformationservice.Options{Store: f.Store, Identity: f.Identity,
		Types: stack.Types(f.Store, nil)}).Register(f.Mux)
	key, err := kms.New(kms.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: f.Root}}).CreateKey(t.Context(), &kms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	f.key = *key.KeyMetadata.KeyId
	return f
}

// reply is the answer to a request: the code and the message of an error.
type reply struct {
	status        int
	code, message string
}

var (
	errorCode    = regexp.MustCompile(`<Code>([^<]+)</Code>|"__type" ?: ?"(?:[^"#]*#)?([^"]+)"`)
	errorMessage = regexp.MustCompile(`(?s)<Message>(.*?)</Message>|"[mM]essage" ?: ?("(?:[^"\\]|\\.)*")`)
)

// ask asks an operation for a page: of a size unless n is nil, and of a list of IDs if ids is the name of that member.
func (f *pageFixture) ask(t *testing.T, op wire.Operation, member, ids string, n *int32) reply {
	t.Helper()
	in := op.MinimalInput()
	completeInput(in)
	v := reflect.ValueOf(in).Elem()
	if id := v.FieldByName("KeyId"); op.Service == wire.KMS && id.IsValid() {
		id.Set(reflect.ValueOf(&f.key))
	}
	if n != nil {
		if m := v.FieldByName(member); m.Kind() == reflect.Pointer {
			m.Set(reflect.ValueOf(n))
		} else {
			m.SetInt(int64(*n))
		}
	}
	if ids != "" && n != nil {
		m := v.FieldByName(ids)
		m.Set(reflect.MakeSlice(m.Type(), 1, 1))
		m.Index(0).SetString("nothing")
	}
	request, err := op.NewRequest("http://coracle.test", in)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if request.Body != nil {
		if body, err = io.ReadAll(request.Body); err != nil {
			t.Fatal(err)
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), f.Root, request, hex.EncodeToString(hash[:]), op.Service.SigningName,
		iamtest.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
	request.RequestURI, request.RemoteAddr = request.URL.RequestURI(), "127.0.0.1:1"
	answer := httptest.NewRecorder()
	f.Mux.ServeHTTP(answer, request)
	r := reply{status: answer.Code}
	if answer.Code < http.StatusBadRequest {
		return r
	}
	r.code, _, _ = strings.Cut(answer.Header().Get("X-Amzn-Errortype"), ":")
	if m := errorCode.FindStringSubmatch(answer.Body.String()); m != nil && r.code == "" {
		r.code = m[1] + m[2]
	}
	m := errorMessage.FindStringSubmatch(answer.Body.String())
	switch {
	case m == nil:
	case m[2] == "":
		r.message = html.UnescapeString(m[1])
	default:
		if err := json.Unmarshal([]byte(m[2]), &r.message); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// completeInput adds what an operation needs although no member says it.
func completeInput(in any) {
	switch in := in.(type) {
	case *ec2.DescribeLaunchTemplateVersionsInput:
		in.Versions = []string{"$Latest"}
	case *ec2.GetInstanceTypesFromInstanceRequirementsInput:
		in.ArchitectureTypes = []ec2types.ArchitectureType{"x86_64"}
		in.VirtualizationTypes = []ec2types.VirtualizationType{"hvm"}
		in.InstanceRequirements = &ec2types.InstanceRequirementsRequest{
			VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(1)},
			MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1)}}
	case *efs.DescribeMountTargetsInput:
		in.FileSystemId = aws.String("fs-0123456789abcdef0")
	case *cloudwatchlogs.StartQueryInput:
		in.LogGroupName = aws.String("nothing")
	case *iam.SimulateCustomPolicyInput:
		in.PolicyInputList = []string{`{"Version":"2012-10-17","Statement":[]}`}
	}
}
