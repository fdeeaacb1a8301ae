package wire_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// rowService answers from rows that it reads one by one, and takes any error for a row that is not there.
type rowService struct {
	rows  store.Table[string]
	begin func() // is called when a request is carried out
}

func (s rowService) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (
	*eks.DescribeClusterOutput, error) {
	s.begin()
	found := 0
	for _, key := range []string{"a", "b", "c"} {
		if _, err := s.rows.Get(ctx, key); err == nil {
			found++
		}
	}
	return &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name,
		Version: aws.String(fmt.Sprintf("of %d rows", found))}}, nil
}

// TestRowsThatAreReadHoldMemory shows that what an operation reads row by row counts against the memory of its account
// until the answer is read, and that an operation which may not read more does not answer as if there were no more.
func TestRowsThatAreReadHoldMemory(t *testing.T) {
	t.Parallel()
	rows := store.NewTable[string](storetest.New(t), "rows")
	for _, key := range []string{"a", "b", "c"} {
		if _, err := rows.Create(t.Context(), key, strings.Repeat("x", 700<<10)); err != nil {
			t.Fatal(err)
		}
	}
	m := wire.NewMux(wire.Options{
		Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 3 << 20,
	})
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	begin := func() {}
	m.Register(wire.EKS, wire.Handle(rowService{rows, func() { begin() }}.DescribeCluster, wire.OnAll))
	describe := func(ctx context.Context, w http.ResponseWriter) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://coracle.test/clusters/x", nil)
		creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
		if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(""), "eks", "us-west-2", time.Now()); err != nil {
			t.Error(err)
		}
		m.ServeHTTP(w, r)
	}
	slow := startedReader{slowReader{httptest.NewRecorder(), make(chan struct{})}, make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		describe(t.Context(), slow)
		close(ended)
	}()
	<-slow.started
	begin = leave // it does not wait for the other
	second := httptest.NewRecorder()
	if describe(gone, second); !strings.Contains(second.Body.String(), "too many large answers") {
		t.Errorf("beside an answer that nobody reads there is room for another: %d %s", second.Code, second.Body)
	}
	close(slow.read)
	<-ended
	after := httptest.NewRecorder()
	if describe(t.Context(), after); !strings.Contains(after.Body.String(), "of 3 rows") {
		t.Errorf("after it was read: %d %s", after.Code, after.Body)
	}
}

// startedReader is a slowReader that tells when its answer has begun.
type startedReader struct {
	slowReader
	started chan struct{}
}

func (s startedReader) Write(b []byte) (int, error) {
	close(s.started)
	return s.slowReader.Write(b)
}

// wideRoles has many roles with texts that XML makes five times as long.
type wideRoles struct{ iamService }

func (wideRoles) ListRoles(context.Context, *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	out := &iam.ListRolesOutput{Marker: aws.String("more")}
	for i := range 200 {
		out.Roles = append(out.Roles, iamtypes.Role{RoleName: aws.String(fmt.Sprintf("r%d", i)),
			Description: aws.String(strings.Repeat("'", 2000))})
	}
	return out, nil
}

// pieces is a client that notes the largest piece in which its answer comes.
type pieces struct {
	*httptest.ResponseRecorder
	largest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.ResponseRecorder.Write(b)
}

// TestLongListsInXMLAreSentInPieces shows that an answer of 2 MiB is never in memory as a whole.
func TestLongListsInXMLAreSentInPieces(t *testing.T) {
	t.Parallel()
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler)})
	m.Register(wire.IAM, wire.Handle(wideRoles{}.ListRoles, wire.OnAll))
	body := "Action=ListRoles&Version=2010-05-08"
	r := httptest.NewRequest(http.MethodPost, "http://coracle.test/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(body), "iam", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	answer := &pieces{ResponseRecorder: httptest.NewRecorder()}
	m.ServeHTTP(answer, r)
	var got struct {
		Result struct {
			Roles []struct {
				Name        string `xml:"RoleName"`
				Description string
			} `xml:"Roles>member"`
			Marker string
		} `xml:"ListRolesResult"`
		ID string `xml:"ResponseMetadata>RequestId"`
	}
	if err := xml.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	roles := got.Result.Roles
	if len(roles) != 200 || roles[199].Name != "r199" || len(roles[199].Description) != 2000 ||
		got.Result.Marker != "more" || got.ID == "" {
		t.Errorf("%d roles, marker %q, request %q", len(roles), got.Result.Marker, got.ID)
	}
	if size := answer.Body.Len(); answer.largest > 100<<10 || size < 2_000_000 {
		t.Errorf("an answer of %d bytes comes in pieces of up to %d", size, answer.largest)
	}
}
