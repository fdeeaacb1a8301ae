package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Queries runs Logs Insights queries that StartQuery has recorded.
type Queries interface {
	// Results returns the status and results of a query: what it has found so far while it is Scheduled or Running,
	// then the final ones. rows are as GetQueryResults shows them: the columns in order, without those that a row
	// lacks, and with @ptr last when rows are events. page gets the number of rows and returns which are wanted, from
	// <= i < to: only these are read, or the first of them if they are very long; nil wants none. hold gets the memory
	// that the rows take, in bytes, before they are read.
	Results(ctx context.Context, q record.LogQuery, page func(rows int) (from, to int, err error),
		hold func(bytes int64) error) (run record.LogQueryRun, rows [][]types.ResultField, err error)
}

const (
	maxConcurrent = 100   // queries of an account that have not ended
	maxSourced    = 10000 // log groups that SOURCE can choose
	maxRows       = 10000 // on a page of results
)

// toMilliseconds converts a time in seconds since 1970 to milliseconds. As on AWS, one that can't be meant so (it would
// be in the year 5138 or later) is in milliseconds already.
func toMilliseconds(t int64) int64 {
	if t < 1e11 {
		return t * 1000
	}
	return t
}

// malformedQuery returns the exception for an invalid query string, with the location of the error.
func malformedQuery(err error) error {
	var syntax *insights.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &types.MalformedQueryException{Message: new(syntax.Message), QueryCompileError: &types.QueryCompileError{
		Message: new(syntax.Message),
		Location: &types.QueryCompileErrorLocation{StartCharOffset: new(int32(syntax.Start)),
			EndCharOffset: new(int32(syntax.End))},
	}}
}

// queryHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) queryHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.StartQuery, s.queryTargets),
		wire.Handle(s.GetQueryResults, wire.OnAll),
		wire.Handle(s.StopQuery, wire.OnAll),
		wire.Handle(s.DescribeQueries, wire.OnAll),
		wire.Handle(s.ListLogGroupsForQuery, wire.OnAll),
	}
}

// queryTargets returns the authorization targets of StartQuery: the log groups of the request, and those that SOURCE
// selects. A query that names none, or that cannot be parsed, needs permission on "*".
func (s *Service) queryTargets(
	ctx context.Context, action string, in *cloudwatchlogs.StartQueryInput,
) ([]wire.Target, error) {
	identifiers := slices.Concat(in.LogGroupNames, in.LogGroupIdentifiers)
	if in.LogGroupName != nil {
		identifiers = append(identifiers, *in.LogGroupName)
	}
	if query, err := insights.Parse(aws.ToString(in.QueryString)); err == nil && query.Source() != nil {
		for _, id := range query.Source().Names {
			identifiers = append(identifiers, strings.TrimSuffix(id, ":*"))
		}
		if query.Source().All {
			groups, err := s.sourceGroups(ctx, query.Source())
			if err != nil {
				return nil, err
			}
			for _, g := range groups {
				identifiers = append(identifiers, g.Name)
			}
		}
	}
	return s.onGroups(ctx, action, identifiers)
}

// queryMemory is how much memory a query takes while it is checked, in bytes for each of its own.
const queryMemory = 1 << 10

// StartQuery validates and records a query; internal/controller/logquery runs it.
func (s *Service) StartQuery(ctx context.Context, in *cloudwatchlogs.StartQueryInput) (
	*cloudwatchlogs.StartQueryOutput, error) {
	if in.QueryLanguage != "" && in.QueryLanguage != types.QueryLanguageCwli {
		return nil,
			invalidParameter(
				"The query language %s is not implemented by Coracle: write the query in CWLI, the language of Logs "+
					"Insights", in.QueryLanguage)
	}
	start, end := toMilliseconds(*in.StartTime), toMilliseconds(*in.EndTime)
	if start > end {
		return nil, invalidParameter("The startTime %d of the query is later than its endTime %d", *in.StartTime,
			*in.EndTime)
	}
	if end > math.MaxInt64/1000 {
		return nil, invalidParameter("The endTime %d of the query is too late", *in.EndTime)
	}
	if err := wire.HoldAnswer(ctx, queryMemory*int64(len(*in.QueryString))); err != nil {
		return nil, err
	}
	query, err := insights.Parse(*in.QueryString)
	if err != nil {
		return nil, malformedQuery(err)
	}
	if _, err := insights.Compile(query, insights.Options{Start: start, End: end, Now: s.now().UnixMilli(),
		Limit: int(aws.ToInt32(in.Limit))}); err != nil {
		return nil, malformedQuery(err)
	}
	groups, err := s.queryGroups(ctx, in, query)
	if err != nil {
		return nil, err
	}
	if err := s.authorizeSourced(ctx, query, groups); err != nil {
		return nil, err
	}
	if err := s.checkQueryable(groups, end); err != nil {
		return nil, err
	}
	at := scopeOf(ctx)
	q := record.LogQuery{
		Account: at.account, Region: at.region, ID: uuid.NewString(),
		Text: *in.QueryString, Language: types.QueryLanguageCwli,
		Start: start / 1000, End: (end + 999) / 1000, Limit: aws.ToInt32(in.Limit),
		CreatedAt: s.timestamp(), CallerARN: wire.CallerFrom(ctx).ARN,
	}
	for _, g := range groups {
		q.Groups, q.GroupIDs = append(q.Groups, g.Name), append(q.GroupIDs, g.ID)
	}
	defer s.lockAccount(at)() // no two requests may both count as the last one that the quota allows
	if n, err := s.countConcurrent(ctx, at); err != nil {
		return nil, err
	} else if n >= maxConcurrent {
		return nil, limitExceeded("Account maximum query concurrency limit of [%d] reached.", maxConcurrent)
	}
	if _, err := s.queries.Create(ctx, record.LogQueryKey(q.Account, q.Region, q.ID), q); err != nil {
		return nil, err
	}
	return &cloudwatchlogs.StartQueryOutput{QueryId: &q.ID}, nil
}

// authorizeSourced decides about the groups that SOURCE has selected for a query: there may be others than when its
// targets were listed.
func (s *Service) authorizeSourced(ctx context.Context, query *insights.Query, groups []record.LogGroup) error {
	if query.Source() == nil || !query.Source().All {
		return nil
	}
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	targets, err := s.onGroups(ctx, "logs:StartQuery", names)
	if err != nil {
		return err
	}
	return wire.Authorize(ctx, targets...)
}

// countConcurrent returns the number of queries of an account that have not ended.
func (s *Service) countConcurrent(ctx context.Context, at scope) (int, error) {
	queries, err := s.queries.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, q := range queries {
		if _, err := s.queryRuns.Get(ctx, q.Key); errors.Is(err, store.ErrNotFound) {
			n++
		} else if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// checkQueryable refuses queries that can have no result: of a time range that the retention of all groups excludes,
// and of groups of a class without Logs Insights.
func (s *Service) checkQueryable(groups []record.LogGroup, end int64) error {
	expired := len(groups) > 0
	for _, g := range groups {
		if g.Class == types.LogGroupClassDelivery {
			return invalidParameter(
				"Logs Insights is not supported for log groups of the class %s, which is that of %s", g.Class, g.Name)
		}
		if g.RetentionDays == 0 || expiryTime(s.now(), g.RetentionDays).UnixMilli() <= end {
			expired = false
		}
	}
	if expired {
		return &types.MalformedQueryException{
			Message: new(
				"Query's end date and time is either before the log groups creation time or exceeds the log groups " +
					"log retention settings")}
	}
	return nil
}

// requestedNames returns the names of the groups that the members of a StartQuery name, and by which of them; none when
// it leaves that to SOURCE.
func (sc scope) requestedNames(in *cloudwatchlogs.StartQueryInput) ([]string, error) {
	given := 0
	for _, is := range []bool{in.LogGroupName != nil, len(in.LogGroupNames) > 0, len(in.LogGroupIdentifiers) > 0} {
		if is {
			given++
		}
	}
	if given > 1 {
		return nil,
			invalidParameter(
				"Exactly one of logGroupName, logGroupNames and logGroupIdentifiers can be specified, but the "+
					"request has %d of them", given)
	}
	if in.LogGroupName != nil {
		return []string{*in.LogGroupName}, nil
	}
	if n := max(len(in.LogGroupNames), len(in.LogGroupIdentifiers)); n > maxIdentifiers {
		return nil, invalidParameter("A query can have up to %d log groups, but the request names %d", maxIdentifiers,
			n)
	}
	var names []string
	for _, name := range in.LogGroupNames {
		if !groupName.MatchString(name) {
			return nil, invalidValue("logGroupNames", name, groupNameConstraint)
		}
		names = append(names, name)
	}
	for _, id := range in.LogGroupIdentifiers {
		name, err := sc.nameOfIdentifier("logGroupIdentifiers", id)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// queryGroups returns the log groups that a query reads: those of the request, or those of its SOURCE command.
func (s *Service) queryGroups(ctx context.Context, in *cloudwatchlogs.StartQueryInput,
	query *insights.Query) ([]record.LogGroup, error) {
	at := scopeOf(ctx)
	names, err := at.requestedNames(in)
	if err != nil {
		return nil, err
	}
	source := query.Source()
	switch {
	case source == nil && len(names) == 0:
		return nil,
			invalidParameter(
				"The query names no log group: specify one of logGroupName, logGroupNames and logGroupIdentifiers, " +
					"or begin the query with SOURCE")
	case source != nil && len(names) > 0:
		return nil,
			invalidParameter("The request names log groups and its query chooses others by SOURCE: do one of the two")
	case source != nil && source.All:
		groups, err := s.sourceGroups(ctx, source)
		if err == nil && len(groups) == 0 {
			err = notFound("No log group matches the SOURCE command of the query.")
		}
		return groups, err
	case source != nil:
		if names, err = at.sourceNames(source); err != nil {
			return nil, err
		}
	}
	var groups []record.LogGroup
	for _, name := range names {
		row, err := s.groups.Get(ctx, at.groupKey(name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, notFound("Log group '%s' does not exist for account ID '%s'", name, at.account)
		} else if err != nil {
			return nil, err
		}
		groups = append(groups, row.Value)
	}
	return groups, nil
}

// sourceNames returns the names of the groups that SOURCE lists.
func (sc scope) sourceNames(source *insights.Source) ([]string, error) {
	if n := len(source.Names); n > maxIdentifiers {
		return nil, invalidParameter("A query can have up to %d log groups, but its SOURCE command names %d",
			maxIdentifiers, n)
	}
	var names []string
	for _, id := range source.Names {
		name, err := sc.nameOfIdentifier("SOURCE", strings.TrimSuffix(id, ":*"))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// sourceGroups returns the groups that SOURCE logGroups(...) selects.
func (s *Service) sourceGroups(ctx context.Context, source *insights.Source) ([]record.LogGroup, error) {
	at := scopeOf(ctx)
	if len(source.Accounts) > 0 && !slices.Contains(source.Accounts, at.account) {
		return nil, nil // no other account is linked
	}
	groups, err := s.groupsOf(ctx, at, "")
	if err != nil {
		return nil, err
	}
	return selectSourced(source, groups)
}

// selectSourced returns those of groups that SOURCE logGroups(...) chooses. It fails when there are more than a query
// can have, before any of them is authorized; how many there are is not for everybody to know.
func selectSourced(source *insights.Source, groups []record.LogGroup) ([]record.LogGroup, error) {
	classes := source.Classes
	if len(classes) == 0 {
		classes = []string{string(types.LogGroupClassStandard)}
	}
	groups = slices.DeleteFunc(groups, func(g record.LogGroup) bool {
		return !slices.Contains(classes, string(g.Class)) ||
			len(source.Prefixes) > 0 && !slices.ContainsFunc(source.Prefixes,
				func(p string) bool { return strings.HasPrefix(g.Name, p) })
	})
	if len(groups) > maxSourced {
		return nil, invalidParameter("The SOURCE command chooses more than the %d log groups that a query can have: "+
			"choose fewer with namePrefix", maxSourced)
	}
	return groups, nil
}

// getQuery returns the caller's query of that ID, or a ResourceNotFoundException.
func (s *Service) getQuery(ctx context.Context, id string) (store.Row[record.LogQuery], error) {
	at := scopeOf(ctx)
	row, err := s.queries.Get(ctx, record.LogQueryKey(at.account, at.region, id))
	if errors.Is(err, store.ErrNotFound) {
		return row, notFound("The specified query does not exist.")
	}
	return row, err
}

// GetQueryResults returns what a query has found.
func (s *Service) GetQueryResults(ctx context.Context, in *cloudwatchlogs.GetQueryResultsInput) (
	*cloudwatchlogs.GetQueryResultsOutput, error) {
	if err := checkPageSize("maxItems", in.MaxItems, 0, maxRows); err != nil {
		return nil, err
	}
	row, err := s.getQuery(ctx, aws.ToString(in.QueryId))
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.GetQueryResultsOutput{QueryLanguage: row.Value.Language, Results: [][]types.ResultField{}}
	var found, asked int
	page := func(limit int32) ([]int, error) {
		numbers := make([]int, found)
		for i := range numbers {
			numbers[i] = i
		}
		page, next, err := wire.Page(ctx, numbers, &limit, in.NextToken,
			func(i int) string { return fmt.Sprintf("%09d", i) })
		out.NextToken, asked = next, len(page)
		return page, err
	}
	run, rows, err := s.runner.Results(ctx, row.Value, func(rows int) (from, to int, err error) {
		found = rows
		numbers, err := page(cmp.Or(aws.ToInt32(in.MaxItems), maxRows))
		if err != nil || len(numbers) == 0 {
			return 0, 0, err
		}
		return numbers[0], numbers[len(numbers)-1] + 1, nil
	}, func(bytes int64) error { return wire.HoldAnswer(ctx, bytes) })
	if err == nil && 0 < len(rows) && len(rows) < asked {
		_, err = page(int32(len(rows))) // they fill a page: the token of the next is another
	}
	if err != nil {
		return nil, fmt.Errorf("results of query %s: %w", row.Value.ID, err)
	}
	out.Status, out.Statistics = run.Status, &run.Statistics
	if len(rows) > 0 {
		out.Results = rows
	}
	return out, nil
}

// StopQuery stops a query that has not ended.
func (s *Service) StopQuery(ctx context.Context, in *cloudwatchlogs.StopQueryInput) (
	*cloudwatchlogs.StopQueryOutput, error) {
	row, err := s.getQuery(ctx, aws.ToString(in.QueryId))
	if err != nil {
		return nil, err
	}
	if run, err := s.queryRuns.Get(ctx, row.Key); err == nil {
		return nil, invalidParameter("The specified query is not running: it has ended with the status %s",
			run.Value.Status)
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	_, err = s.queries.Modify(ctx, row.Key, func(q *record.LogQuery) error {
		q.Stop = true
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("The specified query does not exist.")
	}
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.StopQueryOutput{Success: true}, nil
}

// DescribeQueries lists the queries that run or have run lately, the latest first.
func (s *Service) DescribeQueries(ctx context.Context, in *cloudwatchlogs.DescribeQueriesInput) (
	*cloudwatchlogs.DescribeQueriesOutput, error) {
	at := scopeOf(ctx)
	rows, err := s.queries.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	type described struct {
		record.LogQuery
		run record.LogQueryRun
	}
	var list []described
	for _, row := range rows {
		d := described{LogQuery: row.Value}
		run, err := s.queryRuns.Get(ctx, row.Key)
		switch {
		case err == nil:
			d.run = run.Value
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		default: // the runner knows whether it waits, runs or has just ended
			if d.run, _, err = s.runner.Results(ctx, row.Value, nil, nil); err != nil {
				return nil, fmt.Errorf("status of query %s: %w", row.Value.ID, err)
			}
		}
		if in.LogGroupName != nil && !slices.Contains(d.Groups, *in.LogGroupName) ||
			in.QueryLanguage != "" && d.Language != in.QueryLanguage || in.Status != "" && d.run.Status != in.Status {
			continue
		}
		list = append(list, d)
	}
	key := func(d described) string {
		return fmt.Sprintf("%019d %s", math.MaxInt64-d.CreatedAt.UnixMilli(), d.ID)
	}
	slices.SortFunc(list, func(a, b described) int { return strings.Compare(key(a), key(b)) })
	page, next, err := wire.Page(ctx, list, cmp.Or(in.MaxResults, new(int32(1000))), in.NextToken, key)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeQueriesOutput{Queries: []types.QueryInfo{}, NextToken: next}
	for _, d := range page {
		info := types.QueryInfo{
			QueryId: new(d.ID), QueryString: new(d.Text), QueryLanguage: d.Language, Status: d.run.Status,
			CreateTime:   unixMillis(d.CreatedAt),
			LogGroupName: new(strings.Join(d.Groups, ",")), UserIdentity: new(d.CallerARN),
		}
		if !d.run.EndedAt.IsZero() {
			info.QueryDuration = new(d.run.EndedAt.Sub(d.CreatedAt).Milliseconds())
			info.BytesScanned = new(d.run.Statistics.BytesScanned)
		}
		out.Queries = append(out.Queries, info)
	}
	return out, nil
}

// ListLogGroupsForQuery lists the log groups that a query is about, which SOURCE may have chosen.
func (s *Service) ListLogGroupsForQuery(ctx context.Context, in *cloudwatchlogs.ListLogGroupsForQueryInput) (
	*cloudwatchlogs.ListLogGroupsForQueryOutput, error) {
	if err := checkPageSize("maxResults", in.MaxResults, 50, 500); err != nil {
		return nil, err
	}
	row, err := s.getQuery(ctx, aws.ToString(in.QueryId))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, row.Value.Groups, in.MaxResults, in.NextToken,
		func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.ListLogGroupsForQueryOutput{LogGroupIdentifiers: page, NextToken: next}, nil
}
