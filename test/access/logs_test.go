package access

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/test/harness"
)

// TestPoliciesOnLogGroups shows what the ways in which policies name log groups allow: "...:log-group:NAME:*" and
// "...:log-group:/aws/eks/*" are about the group and what is in it; a bare "...:log-group:NAME" is about its tags
// alone, as on AWS.
func TestPoliciesOnLogGroups(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	ctx := t.Context()
	root := cloudwatchlogs.NewFromConfig(d.Config())
	for name, tags := range map[string]map[string]string{"/aws/eks/a/cluster": {"team": "a"},
		"/aws/eks/b/cluster": {"team": "b"}, "other": nil} {
		if _, err := root.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name,
			Tags: tags}); err != nil {
			t.Fatal(err)
		}
	}
	var id *string
	start := func(groups ...string) func(context.Context, *cloudwatchlogs.Client) error {
		return func(ctx context.Context, c *cloudwatchlogs.Client) error {
			out, err := c.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
				LogGroupNames: groups, StartTime: aws.Int64(0), EndTime: aws.Int64(time.Now().Unix()),
				QueryString: aws.String("fields @message"),
			})
			if err == nil {
				id = out.QueryId
			}
			return err
		}
	}
	source := func(ctx context.Context, c *cloudwatchlogs.Client) error {
		_, err := c.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
			StartTime: aws.Int64(0), EndTime: aws.Int64(time.Now().Unix()),
			QueryString: aws.String("SOURCE logGroups(namePrefix: ['/aws/eks/']) | fields @message"),
		})
		return err
	}
	filter := func(group string) func(context.Context, *cloudwatchlogs.Client) error {
		return func(ctx context.Context, c *cloudwatchlogs.Client) error {
			_, err := c.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group})
			return err
		}
	}
	tags := func(ctx context.Context, c *cloudwatchlogs.Client) error {
		_, err := c.ListTagsForResource(ctx,
			&cloudwatchlogs.ListTagsForResourceInput{ResourceArn: aws.String("arn:aws:logs:" + harness.Region +
				":111122223333:log-group:/aws/eks/a/cluster")})
		return err
	}
	results := func(ctx context.Context, c *cloudwatchlogs.Client) error {
		_, err := c.GetQueryResults(ctx, &cloudwatchlogs.GetQueryResultsInput{QueryId: id})
		return err
	}
	const a, b = "/aws/eks/a/cluster", "/aws/eks/b/cluster"
	arn := "arn:aws:logs:" + harness.Region + ":111122223333:log-group:"
	users := iam.NewFromConfig(d.Config())
	for i, test := range []struct {
		statements string
		what       string
		try        func(context.Context, *cloudwatchlogs.Client) error
		allowed    bool
	}{
		{allow("logs:StartQuery", arn+a+":*"), "a query of a", start(a), true},
		{allow("logs:StartQuery", arn+a+":*"), "a query of b", start(b), false},
		{allow("logs:StartQuery", arn+a+":*"), "a query of a and b", start(a, b), false},
		{allow("logs:StartQuery", arn+a+":*"), "a query of both by SOURCE", source, false},
		{allow("logs:StartQuery", arn+"/aws/eks/*"), "a query of both by SOURCE", source, true},
		{allow("logs:StartQuery", arn+"/aws/eks/*"), "results", results, false},
		{allow("logs:GetQueryResults", "*"), "results", results, true},
		{allow("logs:*", arn+"/aws/eks/*"), "the events of b", filter(b), true},
		{allow("logs:*", arn+"/aws/eks/*:*"), "the events of b", filter(b), true},
		{allow("logs:*", arn+"/aws/eks/*"), "the events of another group", filter("other"), false},
		{allow("logs:*", arn+a), "the events of a", filter(a), false},
		{allow("logs:*", arn+a), "the tags of a", tags, true},
		{allow("logs:*", arn+a+":*"), "the tags of a", tags, false},
		{allow("logs:*", "*") +
			`,{"Effect":"Deny","Action":"logs:StartQuery","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"b"}}}`, "a query of a", start(a), true},
		{allow("logs:*", "*") +
			`,{"Effect":"Deny","Action":"logs:StartQuery","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"b"}}}`, "a query of a and b", start(a, b), false},
		{allow("logs:*", "*") + `,{"Effect":"Deny","Action":"logs:StartQuery","Resource":"` + arn + b + `:*"}`,
			"a query of both by SOURCE", source, false},
	} {
		user := aws.String(fmt.Sprintf("reader-%d", i))
		if _, err := users.CreateUser(ctx, &iam.CreateUserInput{UserName: user}); err != nil {
			t.Fatal(err)
		}
		policy := `{"Version":"2012-10-17","Statement":[` + test.statements + `]}`
		if _, err := users.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: user, PolicyName: aws.String("p"),
			PolicyDocument: &policy}); err != nil {
			t.Fatal(err)
		}
		key, err := users.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: user})
		if err != nil {
			t.Fatal(err)
		}
		err = test.try(ctx, cloudwatchlogs.NewFromConfig(d.ConfigFor(*key.AccessKey.AccessKeyId,
			*key.AccessKey.SecretAccessKey, "")))
		var api smithy.APIError
		if denied := errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException"; denied == test.allowed ||
			!denied && err != nil {
			t.Errorf("%s with %s: %v", test.what, test.statements, err)
		}
	}
}

func allow(action, resource string) string {
	return fmt.Sprintf(`{"Effect":"Allow","Action":%q,"Resource":%q}`, action, resource)
}
