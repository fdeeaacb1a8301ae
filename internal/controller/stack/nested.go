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

var allCapabilities = []types.Capability{types.CapabilityCapabilityIam, types.CapabilityCapabilityNamedIam,
	types.CapabilityCapabilityAutoExpand}

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
			Capabilities: allCapabilities, ClientRequestToken: &r.Token}
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
	out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
	if err != nil {
		return result, err
	}
	s := out.Stacks[0]
	switch status := string(s.StackStatus); {
	case slices.Contains(done, s.StackStatus):
		result.Attributes = map[string]any{}
		for _, o := range s.Outputs {
			result.Attributes["Outputs."+aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		result.Pending = maxDelay
	default:
		return result, resource.Errorf(resource.GeneralServiceException,
			"Embedded stack %s was not successfully %s: %s", id, verb, aws.ToString(s.StackStatusReason))
	}
	return result, nil
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
			Parameters: parameters, Tags: tags, Capabilities: allCapabilities, ClientRequestToken: &r.Token})
		var api smithy.APIError
		if err != nil && !(errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "No updates are to be performed")) {
			return resource.Result{PhysicalID: r.PhysicalID}, err
		}
	}
	return observeNested(ctx, client, r.PhysicalID, "updated", types.StackStatusUpdateComplete,
		types.StackStatusCreateComplete, types.StackStatusUpdateCompleteCleanupInProgress)
}

// Delete is part of resource.Handler. Without a physical ID the name finds what a Create made.
func (nested) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	client := cloudformation.NewFromConfig(r.Config)
	id := r.PhysicalID
	if id == "" {
		out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &r.Name})
		if resource.HasCode(err, "ValidationError") {
			return resource.Result{}, nil
		}
		if err != nil {
			return resource.Result{}, err
		}
		id = aws.ToString(out.Stacks[0].StackId)
	}
	result := resource.Result{PhysicalID: id, Progress: map[string]string{"begun": "true"}}
	if r.Progress["begun"] == "" {
		if _, err := client.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &id}); err != nil {
			return resource.Result{PhysicalID: id}, err
		}
	}
	out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
	if resource.HasCode(err, "ValidationError") {
		return result, nil
	}
	if err != nil {
		return result, err
	}
	switch s := out.Stacks[0]; s.StackStatus {
	case types.StackStatusDeleteComplete:
		return result, nil
	case types.StackStatusDeleteFailed:
		return result, resource.Errorf(resource.GeneralServiceException, "Embedded stack %s was not successfully deleted: %s",
			id, aws.ToString(s.StackStatusReason))
	}
	result.Pending = maxDelay
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
