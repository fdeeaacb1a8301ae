package logs

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	maxDefinitions = 1000 // saved queries of an account in a region
	maxParameters  = 20   // of a saved query
)

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func definitionNotFound() error { return notFound("The specified query definition does not exist.") }

// definitionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) definitionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutQueryDefinition, wire.OnAll),
		wire.Handle(s.DescribeQueryDefinitions, wire.OnAll),
		wire.Handle(s.DeleteQueryDefinition, wire.OnAll),
	}
}

// PutQueryDefinition saves a query, or changes one that is saved. A name with "/" is one in a folder.
func (s *Service) PutQueryDefinition(ctx context.Context, in *cloudwatchlogs.PutQueryDefinitionInput) (
	*cloudwatchlogs.PutQueryDefinitionOutput, error) {
	at := scopeOf(ctx)
	if in.QueryLanguage != "" && in.QueryLanguage != types.QueryLanguageCwli {
		return nil,
			invalidParameter(
				"The query language %s is not implemented by Coracle: save queries in CWLI, the language of Logs "+
					"Insights", in.QueryLanguage)
	}
	if err := checkDefinition(in); err != nil {
		return nil, err
	}
	d := record.LogQueryDefinition{
		Account: at.account, Region: at.region, ID: aws.ToString(in.QueryDefinitionId),
		Name: *in.Name, Text: *in.QueryString, Language: types.QueryLanguageCwli, Groups: in.LogGroupNames,
		Parameters:   in.Parameters,
		LastModified: s.timestamp(),
	}
	if d.ID != "" {
		_, err := s.definitions.Modify(ctx, record.LogQueryKey(at.account, at.region, d.ID),
			func(old *record.LogQueryDefinition) error {
				d.ClientToken, d.Request = old.ClientToken, old.Request
				*old = d
				return nil
			})
		if errors.Is(err, store.ErrNotFound) {
			return nil, definitionNotFound()
		}
		if err != nil {
			return nil, err
		}
		return &cloudwatchlogs.PutQueryDefinitionOutput{QueryDefinitionId: &d.ID}, nil
	}
	defer s.lockAccount(at)() // so that a request that comes twice at once is carried out once
	all, err := s.definitionsOf(ctx, at)
	if err != nil {
		return nil, err
	}
	request := wire.Fingerprint(in)
	for _, old := range all {
		repeated, err := wire.Repeated(ctx, in.ClientToken, request, old.ClientToken, old.Request)
		if err != nil {
			return nil, err
		}
		if repeated {
			return &cloudwatchlogs.PutQueryDefinitionOutput{QueryDefinitionId: &old.ID}, nil
		}
	}
	if len(all) >= maxDefinitions {
		return nil, limitExceeded("The account has %d query definitions, which is the limit: delete some first",
			len(all))
	}
	d.ID, d.ClientToken, d.Request = uuid.NewString(), aws.ToString(in.ClientToken), request
	if _, err := s.definitions.Create(ctx, record.LogQueryKey(at.account, at.region, d.ID), d); err != nil {
		return nil, err
	}
	return &cloudwatchlogs.PutQueryDefinitionOutput{QueryDefinitionId: &d.ID}, nil
}

func checkDefinition(in *cloudwatchlogs.PutQueryDefinitionInput) error {
	for _, folder := range strings.Split(*in.Name, "/") {
		if strings.TrimSpace(folder) == "" {
			return invalidParameter(
				"The name %q of the query definition is invalid: between its slashes there must be the names of folders", *in.Name)
		}
	}
	if n := len(in.LogGroupNames); n > maxIdentifiers {
		return invalidParameter("A query definition can have up to %d log groups, but the request names %d",
			maxIdentifiers, n)
	}
	for _, name := range in.LogGroupNames {
		if !groupName.MatchString(name) {
			return invalidValue("logGroupNames", name, groupNameConstraint)
		}
	}
	if n := len(in.Parameters); n > maxParameters {
		return invalidParameter("A query definition can have up to %d parameters, but the request has %d",
			maxParameters, n)
	}
	var seen []string
	for _, p := range in.Parameters {
		name := aws.ToString(p.Name)
		if !parameterName.MatchString(name) {
			return invalidParameter(
				"The parameter name %q is invalid: it must start with a letter or underscore, and contain only "+
					"letters, digits, and underscores", name)
		}
		if slices.Contains(seen, name) {
			return invalidParameter("The parameter %s is there twice", name)
		}
		seen = append(seen, name)
	}
	return nil
}

func (s *Service) definitionsOf(ctx context.Context, at scope) ([]record.LogQueryDefinition, error) {
	rows, err := s.definitions.List(ctx, store.Prefix(at.account, at.region))
	list := make([]record.LogQueryDefinition, len(rows))
	for i, row := range rows {
		list[i] = row.Value
	}
	return list, err
}

// DescribeQueryDefinitions lists saved queries, by name.
func (s *Service) DescribeQueryDefinitions(ctx context.Context, in *cloudwatchlogs.DescribeQueryDefinitionsInput) (
	*cloudwatchlogs.DescribeQueryDefinitionsOutput, error) {
	list, err := s.definitionsOf(ctx, scopeOf(ctx))
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(d record.LogQueryDefinition) bool {
		return !strings.HasPrefix(d.Name, aws.ToString(in.QueryDefinitionNamePrefix)) || in.QueryLanguage != "" &&
			d.Language != in.QueryLanguage
	})
	slices.SortFunc(list, func(a, b record.LogQueryDefinition) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	page, next, err := wire.Page(ctx, list, cmp.Or(in.MaxResults, new(int32(1000))), in.NextToken,
		func(d record.LogQueryDefinition) string { return d.Name + "\x00" + d.ID })
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeQueryDefinitionsOutput{QueryDefinitions: []types.QueryDefinition{}, NextToken: next}
	for _, d := range page {
		out.QueryDefinitions = append(out.QueryDefinitions, types.QueryDefinition{
			QueryDefinitionId: new(d.ID), Name: new(d.Name), QueryString: new(d.Text), QueryLanguage: d.Language,
			LogGroupNames: d.Groups, Parameters: d.Parameters, LastModified: unixMillis(d.LastModified),
		})
	}
	return out, nil
}

// DeleteQueryDefinition deletes a saved query.
func (s *Service) DeleteQueryDefinition(ctx context.Context, in *cloudwatchlogs.DeleteQueryDefinitionInput) (
	*cloudwatchlogs.DeleteQueryDefinitionOutput, error) {
	at := scopeOf(ctx)
	for {
		row, err := s.definitions.Get(ctx, record.LogQueryKey(at.account, at.region,
			aws.ToString(in.QueryDefinitionId)))
		if err == nil {
			err = s.definitions.Delete(ctx, row)
		}
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case errors.Is(err, store.ErrNotFound):
			return nil, definitionNotFound()
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteQueryDefinitionOutput{Success: true}, nil
	}
}
