package stack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// nested makes stacks that are resources of others, as a client of CloudFormation.
type nested struct{}

// nestedTemplate returns the template of a nested stack. As there is no S3, it is in a data: URL.
func nestedTemplate(value any) (string, error) {
	text, _ := value.(string)
	rest, ok := strings.CutPrefix(text, "data:")
	form, data, found := strings.Cut(rest, ",")
	if !ok || !found {
		return "", resource.Errorf(resource.InvalidRequest, "TemplateURL must be a data: URL with the template in it: "+
			"coracle has no Amazon S3")
	}
	if strings.HasSuffix(form, ";base64") {
		body, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return "", resource.Errorf(resource.InvalidRequest, "TemplateURL is not valid base64")
		}
		return string(body), nil
	}
	body, err := url.PathUnescape(data)
	if err != nil {
		return "", resource.Errorf(resource.InvalidRequest, "TemplateURL is not a valid data: URL")
	}
	return body, nil
}

// capabilitiesOf returns the capabilities of a nested stack: those that its parent was given.
func capabilitiesOf(r *resource.Request) []types.Capability {
	list := make([]types.Capability, len(r.Capabilities))
	for i, c := range r.Capabilities {
		list[i] = types.Capability(c)
	}
	return list
}

// stackInput returns what Create and Update have in common.
func stackInput(r *resource.Request) (body string, parameters []types.Parameter, tags []types.Tag, err error) {
	if body, err = nestedTemplate(r.Properties["TemplateURL"]); err != nil {
		return "", nil, nil, err
	}
	given, _ := r.Properties["Parameters"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := fmt.Sprint(given[key])
		if list, ok := given[key].([]any); ok {
			var texts []string
			for _, item := range list {
				texts = append(texts, fmt.Sprint(item))
			}
			value = strings.Join(texts, ",")
		}
		parameters = append(parameters, types.Parameter{ParameterKey: aws.String(key), ParameterValue: aws.String(value)})
	}
	tags = resource.TagList(r.Wanted("Tags"), func(key, value string) types.Tag {
		return types.Tag{Key: aws.String(key), Value: aws.String(value)}
	})
	return body, parameters, tags, nil
}

// Create is part of resource.Handler. A repeated CreateStack with the same token returns the same stack.
func (nested) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	client := cloudformation.NewFromConfig(r.Config)
	id := r.PhysicalID
	if id == "" {
		body, parameters, tags, err := stackInput(r)
		if err != nil {
			return resource.Result{}, err
		}
		in := &cloudformation.CreateStackInput{StackName: &r.Name, TemplateBody: &body, Parameters: parameters, Tags: tags,
			Capabilities: capabilitiesOf(r), ResourceTypes: r.AllowedTypes, ClientRequestToken: &r.Token}
		if minutes := numberOf(r.Properties["TimeoutInMinutes"], 0); minutes > 0 {
			in.TimeoutInMinutes = aws.Int32(int32(minutes))
		}
		out, err := client.CreateStack(ctx, in)
		if err != nil {
			return resource.Result{}, err
		}
		id = aws.ToString(out.StackId)
	}
	return observeNested(ctx, client, id, "created", types.StackStatusCreateComplete)
}

// observeNested returns how far a nested stack is.
func observeNested(ctx context.Context, client *cloudformation.Client, id, verb string, done ...types.StackStatus) (
	resource.Result, error) {
	result := resource.Result{PhysicalID: id, Progress: map[string]string{"begun": "true"}}
	s, err := describeNested(ctx, client, id)
	switch {
	case err != nil:
		return result, err
	case slices.Contains(done, s.StackStatus):
		result.Attributes = map[string]any{}
		for _, o := range s.Outputs {
			result.Attributes["Outputs."+aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	case strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS"):
		result.Pending = maxDelay
	default:
		return result, nestedFailure(ctx, client, s, verb)
	}
	return result, nil
}

func describeNested(ctx context.Context, client *cloudformation.Client, id string) (types.Stack, error) {
	out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
	if err != nil {
		return types.Stack{}, err
	}
	return out.Stacks[0], nil
}

// nestedFailure returns why a nested stack is not what it should be. A stack that was rolled back has the reason in its
// events only.
func nestedFailure(ctx context.Context, client *cloudformation.Client, s types.Stack, verb string) error {
	reason := aws.ToString(s.StackStatusReason)
	for pages := cloudformation.NewDescribeStackEventsPaginator(client, &cloudformation.DescribeStackEventsInput{
		StackName: s.StackId}); reason == "" && pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, e := range page.StackEvents {
			status := string(e.ResourceStatus)
			if aws.ToString(e.PhysicalResourceId) == aws.ToString(s.StackId) && aws.ToString(e.ResourceStatusReason) != "" &&
				(strings.Contains(status, "ROLLBACK") || strings.HasSuffix(status, "FAILED")) {
				reason = *e.ResourceStatusReason
				break
			}
		}
	}
	return resource.Errorf(resource.GeneralServiceException, "Embedded stack %s was not successfully %s: %s",
		aws.ToString(s.StackId), verb, strings.TrimSuffix(reason, " Rollback requested by user."))
}

// Update is part of resource.Handler.
func (nested) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	client := cloudformation.NewFromConfig(r.Config)
	if r.Progress["begun"] == "" {
		body, parameters, tags, err := stackInput(r)
		if err != nil {
			return resource.Result{PhysicalID: r.PhysicalID}, err
		}
		_, err = client.UpdateStack(ctx, &cloudformation.UpdateStackInput{StackName: &r.PhysicalID, TemplateBody: &body,
			Parameters: parameters, Tags: tags, Capabilities: capabilitiesOf(r), ResourceTypes: r.AllowedTypes,
			ClientRequestToken: &r.Token})
		switch {
		case err == nil:
		case saysStack(err, "No updates are to be performed"):
			return observeNested(ctx, client, r.PhysicalID, "updated", stable...)
		case saysStack(err, "can not be updated"):
			return makeUpdatable(ctx, client, r)
		default:
			return resource.Result{PhysicalID: r.PhysicalID}, err
		}
	}
	return observeNested(ctx, client, r.PhysicalID, "updated", types.StackStatusUpdateComplete,
		types.StackStatusCreateComplete, types.StackStatusUpdateCompleteCleanupInProgress)
}

// saysStack reports whether CloudFormation refused a request with a text.
func saysStack(err error, text string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.Contains(api.ErrorMessage(), text)
}

// makeUpdatable ends what a nested stack does, so that it can be updated: an update that the rollback of its parent has
// overtaken is canceled, and a rollback that failed is continued, once.
func makeUpdatable(ctx context.Context, client *cloudformation.Client, r *resource.Request) (resource.Result, error) {
	result := resource.Result{PhysicalID: r.PhysicalID, Pending: maxDelay}
	s, err := describeNested(ctx, client, r.PhysicalID)
	switch {
	case err != nil:
		return result, err
	case s.StackStatus == types.StackStatusUpdateInProgress:
		_, err := client.CancelUpdateStack(ctx, &cloudformation.CancelUpdateStackInput{StackName: &r.PhysicalID})
		if saysStack(err, "cannot be called from current stack status") {
			err = nil // it has just ended
		}
		return result, err
	case strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS"), slices.Contains(stable, s.StackStatus):
		return result, nil // it has ended since, or will
	case s.StackStatus == types.StackStatusUpdateRollbackFailed && r.Progress["continued"] == "":
		result.Progress = map[string]string{"continued": "true"}
		_, err := client.ContinueUpdateRollback(ctx, &cloudformation.ContinueUpdateRollbackInput{StackName: &r.PhysicalID,
			ClientRequestToken: &r.Token})
		return result, err
	}
	return result, nestedFailure(ctx, client, s, "updated")
}

// Delete is part of resource.Handler. Without a physical ID the name finds what a Create made.
func (nested) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	client := cloudformation.NewFromConfig(r.Config)
	id := r.PhysicalID
	if id == "" {
		s, err := describeNested(ctx, client, r.Name)
		if resource.HasCode(err, "ValidationError") {
			return resource.Result{}, nil
		}
		if err != nil {
			return resource.Result{}, err
		}
		id = aws.ToString(s.StackId)
	}
	result := resource.Result{PhysicalID: id, Pending: maxDelay}
	if r.Progress["begun"] == "" {
		_, err := client.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &id})
		if saysStack(err, "cannot be deleted while in status") {
			return result, nil // it ends an update
		}
		if err != nil {
			return resource.Result{PhysicalID: id}, err
		}
	}
	result.Progress = map[string]string{"begun": "true"}
	s, err := describeNested(ctx, client, id)
	switch {
	case resource.HasCode(err, "ValidationError"), s.StackStatus == types.StackStatusDeleteComplete:
		return resource.Result{PhysicalID: id}, nil
	case err != nil:
		return result, err
	case s.StackStatus == types.StackStatusDeleteFailed:
		return result, nestedFailure(ctx, client, s, "deleted")
	}
	return result, nil
}

// Read is part of resource.Handler.
func (nested) Read(ctx context.Context, r *resource.Request) (properties, attributes map[string]any, err error) {
	result, err := observeNested(ctx, cloudformation.NewFromConfig(r.Config), r.PhysicalID, "read",
		types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete)
	if resource.HasCode(err, "ValidationError") {
		return nil, nil, resource.ErrNotFound
	}
	return r.Properties, result.Attributes, err
}
