package cloudtrail_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/cloudtrail"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// fixture is IAM, STS and CloudTrail over a store of log events.
type fixture struct {
	*iamtest.AWS
	history *coracle.History
	events  *events.Store
	dir     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{AWS: iamtest.New(t), dir: t.TempDir()}
	f.open(t)
	t.Cleanup(func() { f.events.Close() })
	f.Answered = f.history.Record
	coracle.New(f.history).Register(f.Mux)
	return f
}

func (f *fixture) open(t *testing.T) {
	t.Helper()
	var err error
	if f.events, err = events.Open(f.dir, events.Options{}); err != nil {
		t.Fatal(err)
	}
	f.history = coracle.NewHistory(coracle.Options{Events: f.events, Now: f.Now})
}

func (f *fixture) client(who aws.Credentials) *cloudtrail.Client {
	return cloudtrail.New(cloudtrail.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
}

// lookup returns the events that have an attribute, the newest first.
func (f *fixture) lookup(t *testing.T, key types.LookupAttributeKey, value string) []types.Event {
	t.Helper()
	in := &cloudtrail.LookupEventsInput{LookupAttributes: []types.LookupAttribute{
		{AttributeKey: key, AttributeValue: &value}}}
	return awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(f.Root).LookupEvents(t.Context(), in)).Events
}

// record is what tests look at in a record.
type record struct {
	EventVersion, EventSource, EventName, AWSRegion, SourceIPAddress, ErrorCode, ErrorMessage  string
	RequestID, EventID, EventType, EventTime, RecipientAccountID, EventCategory, SharedEventID string
	ReadOnly, ManagementEvent                                                                  bool
	RequestParameters, ResponseElements                                                        map[string]any
	UserIdentity                                                                               struct {
		Type, PrincipalID, ARN, AccountID, AccessKeyID, UserName string
		SessionContext                                           struct {
			SessionIssuer struct{ Type, PrincipalID, ARN, AccountID, UserName string }
			Attributes    struct{ CreationDate, MFAAuthenticated string }
		}
	}
	Resources []struct{ ARN, AccountID, Type string }
}

func recordOf(t *testing.T, e types.Event) (r record) {
	t.Helper()
	if err := json.Unmarshal([]byte(*e.CloudTrailEvent), &r); err != nil {
		t.Fatalf("%v in %s", err, *e.CloudTrailEvent)
	}
	return r
}

func TestEventsSayWhoCalledWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alice := f.NewUser(t, "alice", "")
	_, err := f.IAM(alice).GetUser(t.Context(), &iam.GetUserInput{UserName: aws.String("alice")})
	awstest.WantCode(t, err, "AccessDenied")

	found := f.lookup(t, types.LookupAttributeKeyUsername, "alice")
	if len(found) != 1 {
		t.Fatalf("%d events of alice, want 1", len(found))
	}
	e, arn := found[0], "arn:aws:iam::"+iamtest.Account+":user/alice"
	r := recordOf(t, e)
	if *e.EventName != "GetUser" || *e.EventSource != "iam.amazonaws.com" || *e.ReadOnly != "true" ||
		*e.AccessKeyId != alice.AccessKeyID || *e.EventId != r.EventID || *e.Username != "alice" {
		t.Errorf("event: %+v", e)
	}
	if len(e.Resources) != 1 || *e.Resources[0].ResourceType != "AWS::IAM::User" ||
		*e.Resources[0].ResourceName != "alice" {
		t.Errorf("resources: %+v", e.Resources)
	}
	if r.ErrorCode != "AccessDenied" || !strings.Contains(r.ErrorMessage, "User: "+arn+
		" is not authorized to perform: iam:GetUser on resource: user alice") &&
		!strings.Contains(r.ErrorMessage, "is not authorized to perform: iam:GetUser on resource: "+arn) {
		t.Errorf("error %s: %s", r.ErrorCode, r.ErrorMessage)
	}
	if r.EventVersion != "1.11" || r.EventType != "AwsApiCall" || !r.ManagementEvent || r.EventCategory != "Management" ||
		r.RecipientAccountID != iamtest.Account || r.AWSRegion != "us-east-1" || r.SourceIPAddress != "127.0.0.1" ||
		r.RequestID == "" || r.RequestParameters["userName"] != "alice" || r.ResponseElements != nil || !r.ReadOnly {
		t.Errorf("record: %s", *e.CloudTrailEvent)
	}
	if u := r.UserIdentity; u.Type != "IAMUser" || u.ARN != arn || u.UserName != "alice" ||
		u.AccessKeyID != alice.AccessKeyID || u.AccountID != iamtest.Account || !strings.HasPrefix(u.PrincipalID, "AIDA") {
		t.Errorf("identity: %+v", u)
	}
	if len(r.Resources) != 1 || r.Resources[0].ARN != arn || r.Resources[0].Type != "AWS::IAM::User" {
		t.Errorf("resources of the record: %+v", r.Resources)
	}

	for key, value := range map[types.LookupAttributeKey]string{
		types.LookupAttributeKeyEventId: *e.EventId, types.LookupAttributeKeyEventName: "GetUser",
		types.LookupAttributeKeyAccessKeyId: alice.AccessKeyID,
	} {
		if found := f.lookup(t, key, value); len(found) != 1 || *found[0].EventId != *e.EventId {
			t.Errorf("%s %s finds %d events", key, value, len(found))
		}
	}
	for key, value := range map[types.LookupAttributeKey]string{
		types.LookupAttributeKeyResourceName: "alice", types.LookupAttributeKeyResourceType: "AWS::IAM::User",
		types.LookupAttributeKeyEventSource: "iam.amazonaws.com", types.LookupAttributeKeyReadOnly: "true",
	} {
		has := slices.ContainsFunc(f.lookup(t, key, value), func(o types.Event) bool { return *o.EventId == *e.EventId })
		if !has {
			t.Errorf("%s %s does not find it", key, value)
		}
	}
	if found := f.lookup(t, types.LookupAttributeKeyEventName, "getuser"); len(found) != 0 {
		t.Errorf("another case finds %d events", len(found))
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alice := f.NewUser(t, "alice", "")
	made := f.lookup(t, types.LookupAttributeKeyEventName, "CreateAccessKey")
	if len(made) != 1 {
		t.Fatalf("%d events", len(made))
	}
	r := recordOf(t, made[0])
	key, _ := r.ResponseElements["accessKey"].(map[string]any)
	if key["accessKeyId"] != alice.AccessKeyID || key["secretAccessKey"] != "HIDDEN_DUE_TO_SECURITY_REASONS" {
		t.Errorf("the response is %v", r.ResponseElements)
	}
	password := "correct horse battery"
	_, err := f.IAM(f.Root).CreateLoginProfile(t.Context(), &iam.CreateLoginProfileInput{UserName: aws.String("alice"),
		Password: &password})
	if err != nil && !strings.Contains(err.Error(), "NotImplemented") {
		t.Fatal(err)
	}
	out := awstest.Must[*sts.GetSessionTokenOutput](t)(f.STS(f.Root).GetSessionToken(t.Context(), nil))
	all := awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(f.Root).LookupEvents(t.Context(), nil))
	for _, e := range all.Events {
		for _, secret := range []string{alice.SecretAccessKey, *out.Credentials.SecretAccessKey,
			*out.Credentials.SessionToken, password} {
			if strings.Contains(*e.CloudTrailEvent, secret) {
				t.Errorf("%s has a secret: %s", *e.EventName, *e.CloudTrailEvent)
			}
		}
	}
}

func TestParametersThatAreTooLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, length := range []int{100, 110_000} {
		name, document := fmt.Sprintf("of-%d", length), strings.Repeat("x", length)
		_, err := f.IAM(f.Root).CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: &name,
			PolicyDocument: &document})
		if err == nil {
			t.Fatal("a policy that is none is taken")
		}
	}
	found := f.lookup(t, types.LookupAttributeKeyEventName, "CreatePolicy")
	if len(found) != 2 {
		t.Fatalf("%d events", len(found))
	}
	large, small := recordOf(t, found[0]), recordOf(t, found[1])
	if large.RequestParameters != nil || large.ErrorCode == "" || small.RequestParameters["policyName"] != "of-100" {
		t.Errorf("records:\n%s\n%s", *found[0].CloudTrailEvent, *found[1].CloudTrailEvent)
	}
}

func TestRolesOfOtherAccounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewAccount(t, iamtest.Other)
	role := f.NewRole(t, "viewer", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"`+
		iamtest.Other+`"},"Action":"sts:AssumeRole"}]}`)
	out := awstest.Must[*sts.AssumeRoleOutput](t)(f.STS(f.user(t, other)).AssumeRole(t.Context(),
		&sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: aws.String("bob")}))
	session := aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken}
	_, err := f.client(session).LookupEvents(t.Context(), &cloudtrail.LookupEventsInput{})
	awstest.WantCode(t, err, "AccessDeniedException")

	denied := f.lookup(t, types.LookupAttributeKeyUsername, "bob")
	if len(denied) != 1 {
		t.Fatalf("%d events of the session", len(denied))
	}
	r := recordOf(t, denied[0])
	issuer := r.UserIdentity.SessionContext.SessionIssuer
	if r.UserIdentity.Type != "AssumedRole" || issuer.Type != "Role" || issuer.ARN != role ||
		issuer.UserName != "viewer" || !strings.HasPrefix(issuer.PrincipalID, "AROA") || r.ErrorCode != "AccessDenied" ||
		r.UserIdentity.SessionContext.Attributes.MFAAuthenticated != "false" {
		t.Errorf("record: %s", *denied[0].CloudTrailEvent)
	}

	// Both accounts learn of the role that was assumed; nothing else of one is in the other's history.
	own := f.lookup(t, types.LookupAttributeKeyEventName, "AssumeRole")
	in := &cloudtrail.LookupEventsInput{}
	theirs := awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(other).LookupEvents(t.Context(), in)).Events
	theirs = slices.DeleteFunc(theirs, func(e types.Event) bool { return *e.EventName != "AssumeRole" })
	if len(own) != 1 || len(theirs) != 1 {
		t.Fatalf("%d and %d events", len(own), len(theirs))
	}
	a, b := recordOf(t, own[0]), recordOf(t, theirs[0])
	if a.SharedEventID == "" || a.SharedEventID != b.SharedEventID || a.EventID == b.EventID ||
		a.UserIdentity.Type != "AWSAccount" || a.UserIdentity.AccountID != iamtest.Other || a.UserIdentity.ARN != "" ||
		a.RecipientAccountID != iamtest.Account || b.RecipientAccountID != iamtest.Other || !a.ReadOnly {
		t.Errorf("records:\n%s\n%s", *own[0].CloudTrailEvent, *theirs[0].CloudTrailEvent)
	}
}

// user makes a user who may assume roles, in the account of some root user: root users assume none.
func (f *fixture) user(t *testing.T, root aws.Credentials) aws.Credentials {
	t.Helper()
	client, ctx, name := f.IAM(root), t.Context(), aws.String("carol")
	awstest.Must[*iam.CreateUserOutput](t)(client.CreateUser(ctx, &iam.CreateUserInput{UserName: name}))
	awstest.Must[*iam.PutUserPolicyOutput](t)(client.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: name,
		PolicyName: aws.String("assume"), PolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)}))
	key := awstest.Must[*iam.CreateAccessKeyOutput](t)(client.CreateAccessKey(ctx,
		&iam.CreateAccessKeyInput{UserName: name})).AccessKey
	return aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey}
}

func TestPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	start := time.Now().UTC().Truncate(time.Second)
	f.SetNow(start)
	for i := range 7 { // changes and reads of one time and of several
		f.SetNow(start.Add(time.Duration(i/2) * time.Minute))
		name := fmt.Sprintf("user%d", i)
		awstest.Must[*iam.CreateUserOutput](t)(f.IAM(f.Root).CreateUser(t.Context(), &iam.CreateUserInput{UserName: &name}))
		awstest.Must[*iam.GetUserOutput](t)(f.IAM(f.Root).GetUser(t.Context(), &iam.GetUserInput{UserName: &name}))
	}
	f.SetNow(start.Add(5 * time.Minute)) // within what signatures allow
	in := &cloudtrail.LookupEventsInput{MaxResults: aws.Int32(3), EndTime: aws.Time(start.Add(4 * time.Minute))}
	seen, last := map[string]bool{}, start.Add(time.Hour)
	pages := cloudtrail.NewLookupEventsPaginator(f.client(f.Root), in)
	for pages.HasMorePages() {
		page := awstest.Must[*cloudtrail.LookupEventsOutput](t)(pages.NextPage(t.Context()))
		if len(page.Events) > 3 {
			t.Errorf("a page of %d", len(page.Events))
		}
		for _, e := range page.Events {
			if seen[*e.EventId] || e.EventTime.After(last) {
				t.Errorf("%s at %s comes twice, or after an older one", *e.EventName, e.EventTime)
			}
			seen[*e.EventId], last = true, *e.EventTime
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d events, want 14", len(seen))
	}

	first := awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(f.Root).LookupEvents(t.Context(), in))
	_, err := f.client(f.Root).LookupEvents(t.Context(), &cloudtrail.LookupEventsInput{NextToken: first.NextToken})
	awstest.WantCode(t, err, "InvalidNextTokenException")

	within := &cloudtrail.LookupEventsInput{StartTime: aws.Time(start.Add(time.Minute)),
		EndTime: aws.Time(start.Add(2 * time.Minute))}
	if out := awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(f.Root).LookupEvents(t.Context(),
		within)); len(out.Events) != 8 {
		t.Errorf("%d events in two minutes, want 8", len(out.Events))
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attribute := func(key, value string) []types.LookupAttribute {
		return []types.LookupAttribute{{AttributeKey: types.LookupAttributeKey(key), AttributeValue: &value}}
	}
	now := time.Now()
	for code, inputs := range map[string][]*cloudtrail.LookupEventsInput{
		"InvalidLookupAttributesException": {
			{LookupAttributes: attribute("ErrorCode", "AccessDenied")},
			{LookupAttributes: attribute("ReadOnly", "maybe")},
			{LookupAttributes: attribute("EventName", "")},
			{LookupAttributes: attribute("EventName", strings.Repeat("x", 2001))},
			{LookupAttributes: append(attribute("EventName", "A"), attribute("EventName", "B")...)},
		},
		"InvalidMaxResultsException":    {{MaxResults: aws.Int32(0)}, {MaxResults: aws.Int32(51)}},
		"InvalidTimeRangeException":     {{StartTime: &now, EndTime: aws.Time(now.Add(-time.Second))}},
		"InvalidEventCategoryException": {{EventCategory: types.EventCategoryInsight}, {EventCategory: "Management"}},
		"InvalidNextTokenException":     {{NextToken: aws.String("e30")}, {NextToken: aws.String("?")}},
	} {
		for _, in := range inputs {
			_, err := f.client(f.Root).LookupEvents(t.Context(), in)
			awstest.WantCode(t, err, code)
		}
	}
	_, err := f.client(f.NewUser(t, "nobody", "")).LookupEvents(t.Context(), &cloudtrail.LookupEventsInput{})
	awstest.WantCode(t, err, "AccessDeniedException")
}

func TestOnlySignedRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wrong := aws.Credentials{AccessKeyID: f.Root.AccessKeyID, SecretAccessKey: "wrong"}
	_, err := f.IAM(wrong).ListRoles(t.Context(), &iam.ListRolesInput{})
	awstest.WantCode(t, err, "SignatureDoesNotMatch")
	if found := f.lookup(t, types.LookupAttributeKeyEventName, "ListRoles"); len(found) != 0 {
		t.Errorf("%d events of who does not know the secret", len(found))
	}
}

func TestThrottling(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.SetNow(time.Now()) // and no time passes
	for range 40 {
		awstest.Must[*cloudtrail.LookupEventsOutput](t)(f.client(f.Root).LookupEvents(t.Context(), nil))
	}
	_, err := f.client(f.Root).LookupEvents(t.Context(), nil)
	awstest.WantCode(t, err, "ThrottlingException")
}

func TestTrails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if out := awstest.Must[*cloudtrail.DescribeTrailsOutput](t)(f.client(f.Root).DescribeTrails(t.Context(),
		&cloudtrail.DescribeTrailsInput{})); len(out.TrailList) != 0 {
		t.Errorf("trails: %+v", out.TrailList)
	}
	if out := awstest.Must[*cloudtrail.ListTrailsOutput](t)(f.client(f.Root).ListTrails(t.Context(),
		&cloudtrail.ListTrailsInput{})); len(out.Trails) != 0 {
		t.Errorf("trails: %+v", out.Trails)
	}
	_, err := f.client(f.Root).CreateTrail(t.Context(), &cloudtrail.CreateTrailInput{Name: aws.String("all"),
		S3BucketName: aws.String("bucket")})
	awstest.WantCode(t, err, "NotImplemented")
}
