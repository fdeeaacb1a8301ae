package value

import (
	"math"
	"strings"
	"testing"
)

// none is the result of a function that has none.
const none = "(absent)"

// TestFunctions is about the edges of each function; docs/logs-insights-functions.md has what is usual.
// The name absent is a field that the event lacks.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for function, cases := range map[string][][2]string{
		"abs": {
			{`abs(3)`, "3"}, {`abs("-3.5")`, "3.5"}, {`abs(-9007199254740993)`, "9007199254740993"}, {`abs(toLong("-9223372036854775808"))`, "9223372036854776000"},
			{`abs("")`, none}, {`abs("x")`, none}, {`abs(absent)`, none}, {`abs(jsonParse("[1]"))`, none}, {`abs(1 = 1)`, "1"},
		},
		"ceil":  {{`ceil(-2.9)`, "-2"}, {`ceil(9007199254740993)`, "9007199254740993"}, {`ceil("2.0000001")`, "3"}, {`ceil(-0.5)`, "0"}, {`ceil("a")`, none}, {`ceil(absent)`, none}},
		"floor": {{`floor(2.9)`, "2"}, {`floor("9007199254740993")`, "9007199254740993"}, {`floor(1.5 * 1000000000000000000)`, "1500000000000000000"}, {`floor("")`, none}, {`floor(absent)`, none}},
		"greatest": {
			{`greatest(5)`, "5"}, {`greatest("9", 10)`, "10"}, {`greatest(9007199254740992, 9007199254740993)`, "9007199254740993"}, {`greatest(1, absent)`, none}, {`greatest(absent)`, none}, {`greatest("x", 1)`, none},
			{`greatest(@timestamp, 5)`, "2026-11-21 10:36:42.123"},
		},
		"least": {{`least(-1, "-2.5")`, "-2.5"}, {`least(9007199254740993, 9007199254740992)`, "9007199254740992"}, {`least(1, absent)`, none}, {`least(1 = 2, 5)`, "0"}},
		"log":   {{`log(0)`, none}, {`log(-1)`, none}, {`log("x")`, none}, {`log(absent)`, none}, {`round(log(10), 4)`, "2.3026"}},
		"sqrt":  {{`sqrt(-1)`, none}, {`sqrt(0)`, "0"}, {`sqrt("2.25")`, "1.5"}, {`sqrt(absent)`, none}},
		"round": {
			{`round(2.5)`, "3"}, {`round(-2.5)`, "-3"}, {`round(0.49999999999999994)`, "0"}, {`round(9.995, 2)`, "10"}, {`round(0.05, 1)`, "0.1"}, {`round(1.005, 2)`, "1.01"}, {`round(1234.5, -2)`, "1200"}, {`round(999, -1)`, "1000"},
			{`round(9007199254740993)`, "9007199254740993"}, {`round(1.5, absent)`, none}, {`round(1.5, 0.5)`, none}, {`round(1.5, 400)`, none}, {`round("x")`, none}, {`round(absent)`, none}, {`round(4, -1)`, "0"}, {`round(5, -1)`, "10"}, {`round(5, -3)`, "0"},
		},
		"haversine": {{`haversine(0, 0, 0, 0)`, "0"}, {`round(haversine(0, 0, 0, 180))`, "20015"}, {`haversine(91, 0, 0, 0)`, none}, {`haversine(0, 181, 0, 0)`, none}, {`haversine("x", 0, 0, 0)`, none}, {`haversine(absent, 0, 0, 0)`, none}},
		"toNumber":  {{`toNumber("1e3")`, "1000"}, {`toNumber("-0")`, "0"}, {`toNumber("+5")`, "5"}, {`toNumber(".5")`, "0.5"}, {`toNumber("5.")`, "5"}, {`toNumber(" 5")`, none}, {`toNumber("5s")`, none}, {`toNumber("0x10")`, none}, {`toNumber("NaN")`, none}, {`toNumber("Infinity")`, none}, {`toNumber("1e999")`, none}, {`toNumber("")`, none}, {`toNumber("-")`, none}, {`toNumber(".")`, none}, {`toNumber("1e")`, none}, {`toNumber(absent)`, none}, {`toNumber("18446744073709551615")`, "18446744073709552000"}},
		"toInt":     {{`toInt(2147483647)`, "2147483647"}, {`toInt(2147483648)`, none}, {`toInt("-2147483648.5")`, "-2147483648"}, {`toInt("x")`, none}, {`toInt(absent)`, none}, {`toInt(1 = 1)`, "1"}},
		"toLong":    {{`toLong("9223372036854775807")`, "9223372036854775807"}, {`toLong("9223372036854775808")`, none}, {`toLong("-9223372036854775808")`, "-9223372036854775808"}, {`toLong("1e300")`, none}, {`toLong("12.9")`, "12"}, {`toLong(absent)`, none}},
		"toDouble":  {{`toDouble("1.5")`, "1.5"}, {`toDouble("9007199254740993")`, "9007199254740992"}, {`toDouble("x")`, none}, {`toDouble(absent)`, none}},

		"bin": {
			{`bin(1s)`, "2026-11-21 10:36:42.000"}, {`bin(100ms)`, "2026-11-21 10:36:42.100"}, {`bin(300s)`, "2026-11-21 10:36:00.000"}, {`bin(1d)`, "2026-11-21 00:00:00.000"}, {`bin(48h)`, "2026-11-21 00:00:00.000"},
			{`bin(1mo)`, "2026-11-01 00:00:00.000"}, {`bin(1q)`, "2026-10-01 00:00:00.000"}, {`bin(1y)`, "2026-01-01 00:00:00.000"}, {`bin(2hrs)`, "2026-11-21 10:00:00.000"}, {`bin("5m")`, "2026-11-21 10:35:00.000"}, {`bin(5)`, none}, {`bin("x")`, none}, {`bin(absent)`, none},
		},
		"datefloor": {
			{`datefloor(0, 1w)`, "1969-12-29 00:00:00.000"}, {`datefloor(-1, 1d)`, "1969-12-31 00:00:00.000"}, {`datefloor("1642195111000", 1h)`, "2022-01-14 21:00:00.000"}, {`datefloor("2022-01-14", 1h)`, none}, {`datefloor(absent, 1h)`, none}, {`datefloor(@timestamp, 5)`, none},
			{`datefloor("1e300", 1h)`, none}, {`datefloor(@timestamp, 7mo)`, "2026-07-01 00:00:00.000"}, {`datefloor(@timestamp, 10y)`, "2020-01-01 00:00:00.000"}, {`datefloor(1 = 1, 1h)`, none},
		},
		"dateceil":   {{`dateceil(@timestamp, 5m)`, "2026-11-21 10:40:00.000"}, {`dateceil(datefloor(@timestamp, 1h), 1h)`, "2026-11-21 10:00:00.000"}, {`dateceil(@timestamp, 1y)`, "2027-01-01 00:00:00.000"}, {`dateceil(@timestamp, 1q)`, "2027-01-01 00:00:00.000"}, {`dateceil(absent, 1h)`, none}},
		"fromMillis": {{`fromMillis("0")`, "1970-01-01 00:00:00.000"}, {`fromMillis(-1)`, "1969-12-31 23:59:59.999"}, {`fromMillis(1.9)`, "1970-01-01 00:00:00.001"}, {`fromMillis(253402300799999)`, "9999-12-31 23:59:59.999"}, {`fromMillis(253402300800000)`, none}, {`fromMillis("x")`, none}, {`fromMillis(absent)`, none}},
		"toMillis":   {{`toMillis(fromMillis(5))`, "5"}, {`toMillis("5")`, "5"}, {`toMillis("2022-01-14")`, none}, {`toMillis(absent)`, none}, {`toMillis(@timestamp) - 123 / 1000 - now()`, "0"}},
		"parseDate": {
			{`parseDate("2026-11-21", "yyyy-MM-dd", "UTC")`, "1795219200000"}, {`parseDate("2026-11-21", "yyyy-MM-dd", "America/New_York")`, "1795237200000"}, {`parseDate("2026-11-21", "yyyy-MM-dd", "+01:00")`, "1795215600000"},
			{`parseDate("2026-11-21T10:36:42.123Z", "yyyy-MM-dd'T'HH:mm:ss.SSSX")`, "1795257402123"}, {`parseDate("2026-11-21T10:36:42", "yyyy-MM-dd'T'HH:mm:ss[.SSS][X]")`, "1795257402000"}, {`parseDate("20261121103642123", "yyyyMMddHHmmssSSS")`, "1795257402123"},
			{`parseDate("Sat, 21 Nov 2026 10:36:42 GMT", "EEE, d MMM yyyy HH:mm:ss z")`, "1795257402000"}, {`parseDate("November 21, 2026 10:36 PM", "MMMM d, yyyy h:mm a")`, "1795300560000"}, {`parseDate("2026-325", "yyyy-DDD")`, "1795219200000"}, {`parseDate("21.11.26", "dd.MM.yy")`, "1795219200000"},
			{`parseDate("12:00 AM", "hh:mm a")`, "0"}, {`parseDate("2026", "yyyy")`, "1767225600000"}, {`parseDate("2026-02-30", "yyyy-MM-dd")`, none}, {`parseDate("2026-13-01", "yyyy-MM-dd")`, none}, {`parseDate("2026-11-21 ", "yyyy-MM-dd")`, none}, {`parseDate("x", "yyyy")`, none},
			{`parseDate("2026", "yyyy", "Nowhere/City")`, none}, {`parseDate("2026", "qqqq")`, none}, {`parseDate("2026", "yyyy'")`, none}, {`parseDate("2026", "yyyy[")`, none}, {`parseDate(absent, "yyyy")`, none}, {`parseDate("2026", absent)`, none}, {`parseDate("", "")`, "0"}, {`parseDate("2026'", "yyyy''")`, "1767225600000"},
			{`parseDate("24:00", "kk:mm")`, "0"}, {`parseDate("25:00", "HH:mm")`, none}, {`parseDate("10:61", "HH:mm")`, none}, {`parseDate("1970-01-01 02:00 Europe/Berlin", "yyyy-MM-dd HH:mm VV")`, "3600000"}, {`parseDate("1970-01-01 02:00 GMT+2", "yyyy-MM-dd HH:mm O")`, "0"},
			{`parseDate("2026-366", "yyyy-DDD")`, none}, {`parseDate("2024-366", "yyyy-DDD")`, "1735603200000"},
		},
		"formatDate": {
			{`formatDate(0, "%Y-%m-%dT%H:%M:%S.%LZ")`, "1970-01-01T00:00:00.000Z"}, {`formatDate(@timestamp, "%a %A %b %B %e %j %p %I %y %%", "UTC")`, "Sat Saturday Nov November 21 325 AM 10 26 %"}, {`formatDate(@timestamp, "%F %T %s %f %z %Z", "Europe/Berlin")`, "2026-11-21 11:36:42 1795257402 123000 +0100 CET"},
			{`formatDate(@timestamp, "%-d/%-m %u %w %U %W %G-W%V")`, "21/11 6 6 46 46 2026-W47"}, {`formatDate(0, "%-d")`, "1"}, {`formatDate(0, "")`, ""}, {`formatDate(0, "%Q")`, none}, {`formatDate(0, "%")`, none}, {`formatDate(0, "%-")`, none}, {`formatDate(0, "%Y", "Nowhere")`, none}, {`formatDate("x", "%Y")`, none}, {`formatDate(absent, "%Y")`, none}, {`formatDate(0, absent)`, none}, {`formatDate(0, "ü%Y")`, "ü1970"},
		},
		"strftime": {{`strftime(0, "%R")`, "00:00"}, {`strftime(absent, "%R")`, none}},
		"now":      {{`now() * 1000 - 7200000`, "1795250202000"}},

		"ispresent":      {{`ispresent("")`, "1"}, {`ispresent(0)`, "1"}, {`ispresent(absent)`, "0"}, {`ispresent(jsonParse("{}"))`, "1"}, {`ispresent(jsonParse("x"))`, "0"}},
		"coalesce":       {{`coalesce(absent, absent)`, none}, {`coalesce("", 1)`, ""}, {`coalesce(absent, 0)`, "0"}, {`coalesce(absent, jsonParse("[1]"))`, "[1]"}},
		"case":           {{`case(1 = 2, "a")`, none}, {`case(1 = 2, "a", "default")`, "default"}, {`case(absent, "a", "x", "b", "c")`, "c"}, {`case("true", "a", "b")`, "a"}, {`case(strcontains("abc", "b"), 1, 2)`, "1"}},
		"if":             {{`if(absent, 1, 2)`, "2"}, {`if("0", 1, 2)`, "2"}, {`if(2, 1, 2)`, "1"}, {`if(jsonParse("[1]"), 1, 2)`, "2"}, {`if(1 = 1, absent, 2)`, none}},
		"isNumeric":      {{`isNumeric(1)`, "1"}, {`isNumeric("1.28E8")`, "1"}, {`isNumeric("")`, "0"}, {`isNumeric("1,000")`, "0"}, {`isNumeric(absent)`, "0"}, {`isNumeric(1 = 1)`, "0"}, {`isNumeric(jsonParse("[1]"))`, "0"}},
		"messageSize":    {{`messageSize("")`, "0"}, {`messageSize(123)`, "3"}, {`messageSize("日本")`, "6"}, {`messageSize(absent)`, none}, {`messageSize(jsonParse("[1]"))`, none}},
		"queryStartTime": {{`queryEndTime() - queryStartTime()`, "3600000"}},
		"queryEndTime":   {{`fromMillis(queryEndTime())`, "2026-11-21 10:36:42.000"}},
		"queryTimeRange": {{`queryTimeRange() / 1000`, "3600"}},

		"jsonParse":         {{`jsonParse(" [1, 2] ")`, "[1, 2]"}, {`jsonParse("{}")`, "{}"}, {`jsonParse("1")`, none}, {`jsonParse("\"x\"")`, none}, {`jsonParse("{")`, none}, {`jsonParse("{} x")`, none}, {`jsonParse("")`, none}, {`jsonParse(absent)`, none}, {`jsonParse(5)`, none}, {`jsonParse(jsonParse("[1]"))`, "[1]"}, {`jsonParse("[{\"a\":{\"b\":[1,{\"c\":\"d\"}]}}]").0.a.b.1.c`, "d"}, {`jsonParse("[1]").1`, none}, {`jsonParse("{\"a\":\"{\\\"b\\\":1}\"}").a.b`, none}},
		"jsonStringify":     {{`jsonStringify(jsonParse("{\"a\": 1}"))`, `{"a": 1}`}, {`jsonStringify("{}")`, none}, {`jsonStringify(absent)`, none}, {`jsonStringify(5)`, none}},
		"jsonArraySize":     {{`jsonArraySize("[]")`, "0"}, {`jsonArraySize("[[1,2],{\"a\":[]}]")`, "2"}, {`jsonArraySize(jsonParse("[1]"))`, "1"}, {`jsonArraySize("{}")`, none}, {`jsonArraySize("x")`, none}, {`jsonArraySize(absent)`, none}},
		"jsonArrayContains": {{`jsonArrayContains("[\"Admin\"]", "admin")`, "0"}, {`jsonArrayContains("[1,2]", 2)`, "1"}, {`jsonArrayContains("[1,2]", "2")`, "1"}, {`jsonArrayContains("[true]", "true")`, "1"}, {`jsonArrayContains("[\"a\\u0062\"]", "ab")`, "1"}, {`jsonArrayContains("[null]", absent)`, "0"}, {`jsonArrayContains("[]", "x")`, "0"}, {`jsonArrayContains("x", "x")`, "0"}, {`jsonArrayContains("{}", "x")`, "0"}, {`jsonArrayContains(absent, "x")`, "0"}},

		"isValidIp":      {{`isValidIp("2001:db8::1")`, "1"}, {`isValidIp("256.1.1.1")`, "0"}, {`isValidIp("10.0.0.1:80")`, "0"}, {`isValidIp(" 10.0.0.1")`, "0"}, {`isValidIp("fe80::1%eth0")`, "0"}, {`isValidIp("")`, "0"}, {`isValidIp(absent)`, "0"}, {`isValidIp(5)`, "0"}},
		"isValidIpV4":    {{`isValidIpV4("10.0.0.1")`, "1"}, {`isValidIpV4("::ffff:10.0.0.1")`, "0"}, {`isValidIpV4("010.0.0.1")`, "0"}, {`isValidIpV4(absent)`, "0"}},
		"isValidIpV6":    {{`isValidIpV6("::ffff:10.0.0.1")`, "1"}, {`isValidIpV6("::")`, "1"}, {`isValidIpV6("10.0.0.1")`, "0"}, {`isValidIpV6(absent)`, "0"}},
		"isIpInSubnet":   {{`isIpInSubnet("10.1.2.3", "10.0.0.0/8")`, "1"}, {`isIpInSubnet("11.1.2.3", "10.0.0.0/8")`, "0"}, {`isIpInSubnet("10.1.2.3", "10.9.9.9/8")`, "1"}, {`isIpInSubnet("10.1.2.3", "10.0.0.0")`, "0"}, {`isIpInSubnet("10.1.2.3", "x")`, "0"}, {`isIpInSubnet("10.1.2.3", absent)`, "0"}, {`isIpInSubnet(absent, "10.0.0.0/8")`, "0"}, {`isIpInSubnet("10.1.2.3", "::/0")`, "0"}, {`isIpInSubnet("10.1.2.3", "0.0.0.0/0")`, "1"}},
		"isIpv4InSubnet": {{`isIpv4InSubnet("2001:db8::1", "2001:db8::/32")`, "0"}, {`isIpv4InSubnet("192.0.3.1", "192.0.2.0/24")`, "0"}, {`isIpv4InSubnet(absent, "192.0.2.0/24")`, "0"}},
		"isIpv6InSubnet": {{`isIpv6InSubnet("2001:db8::1", "2001:db8::/32")`, "1"}, {`isIpv6InSubnet("2001:db9::1", "2001:db8::/32")`, "0"}, {`isIpv6InSubnet(absent, "2001:db8::/32")`, "0"}},
		"ipv4ToNumber":   {{`ipv4ToNumber("0.0.0.0")`, "0"}, {`ipv4ToNumber("255.255.255.255")`, "4294967295"}, {`ipv4ToNumber("::1")`, none}, {`ipv4ToNumber("x")`, none}, {`ipv4ToNumber(absent)`, none}},
		"isPrivateIP":    {{`isPrivateIP("172.32.0.1")`, "0"}, {`isPrivateIP("192.168.1.1")`, "1"}, {`isPrivateIP("::ffff:10.0.0.1")`, "1"}, {`isPrivateIP("fd00::1")`, "0"}, {`isPrivateIP("x")`, "0"}, {`isPrivateIP(absent)`, "0"}},
		"isPublicIP":     {{`isPublicIP("10.0.0.1")`, "0"}, {`isPublicIP("127.0.0.1")`, "0"}, {`isPublicIP("100.64.0.1")`, "0"}, {`isPublicIP("fd00::1")`, "0"}, {`isPublicIP("2600::1")`, "1"}, {`isPublicIP("x")`, "0"}, {`isPublicIP(absent)`, "0"}},
		"isReservedIP":   {{`isReservedIP("224.0.0.1")`, "1"}, {`isReservedIP("255.255.255.255")`, "1"}, {`isReservedIP("fe80::1")`, "1"}, {`isReservedIP("::")`, "1"}, {`isReservedIP("8.8.8.8")`, "0"}, {`isReservedIP("10.0.0.1")`, "0"}, {`isReservedIP("x")`, "0"}, {`isReservedIP(absent)`, "0"}},

		"isempty": {{`isempty(absent)`, "1"}, {`isempty(" ")`, "0"}, {`isempty(0)`, "0"}, {`isempty(jsonParse("[]"))`, "1"}, {`isempty("") = 1`, "1"}},
		"isblank": {{`isblank(absent)`, "1"}, {`isblank("")`, "1"}, {`isblank("\u00a0\t")`, "1"}, {`isblank("x")`, "0"}, {`isblank(0)`, "0"}},
		"concat":  {{`concat("a")`, "a"}, {`concat("", "")`, ""}, {`concat("n=", 1.5, ", ", 1 = 1)`, "n=1.5, 1"}, {`concat("a", absent)`, none}, {`concat("a", jsonParse("[]"))`, none}, {`concat("日", "本")`, "日本"}},
		"ltrim":   {{`ltrim("  a ")`, "a "}, {`ltrim("\u00a0a")`, "a"}, {`ltrim(" a", "b")`, " a"}, {`ltrim("aaa", "a")`, ""}, {`ltrim("äöa", "öä")`, "a"}, {`ltrim("a", "")`, "a"}, {`ltrim("a", absent)`, none}, {`ltrim(absent)`, none}},
		"rtrim":   {{`rtrim(" a  ")`, " a"}, {`rtrim("", "x")`, ""}, {`rtrim(100, "0")`, "1"}, {`rtrim(absent)`, none}},
		"trim":    {{`trim("  ")`, ""}, {`trim("日a日", "日")`, "a"}, {`trim(absent)`, none}, {`trim("a", absent)`, none}},
		"strlen":  {{`strlen("")`, "0"}, {`strlen("日本語")`, "3"}, {`strlen("e\u0301")`, "2"}, {`strlen("😀")`, "1"}, {`strlen(1234)`, "4"}, {`strlen(absent)`, none}, {`strlen(jsonParse("[]"))`, none}},
		"toupper": {{`toupper("äbc1")`, "ÄBC1"}, {`toupper("")`, ""}, {`toupper(5)`, "5"}, {`toupper(absent)`, none}},
		"tolower": {{`tolower("ΣΑΣ")`, "σασ"}, {`tolower("")`, ""}, {`tolower(absent)`, none}},
		"substr":  {{`substr("abc", 1)`, "bc"}, {`substr("日本語", 1, 1)`, "本"}, {`substr("abc", 3)`, ""}, {`substr("abc", 99)`, ""}, {`substr("abc", 0, 99)`, "abc"}, {`substr("abc", 1, 0)`, ""}, {`substr("abc", -1)`, none}, {`substr("abc", 0, -1)`, none}, {`substr("abc", 1.9)`, "bc"}, {`substr("abc", "1")`, "bc"}, {`substr("abc", "x")`, none}, {`substr("abc", absent)`, none}, {`substr(absent, 0)`, none}, {`substr(12345, 1, 2)`, "23"}, {`substr("abc", "1e300")`, ""}, {`substr("", 0)`, ""}},
		"replace": {{`replace("aaa", "aa", "b")`, "ba"}, {`replace("abc", "", "x")`, "abc"}, {`replace("abc", "z", "x")`, "abc"}, {`replace("abc", "b", "")`, "ac"}, {`replace("äöü", "ö", "o")`, "äoü"}, {`replace("a.c", ".", "b")`, "abc"}, {`replace(absent, "a", "b")`, none}, {`replace("a", absent, "b")`, none}, {`replace("a", "a", absent)`, none}, {`replace(10203, 0, "-")`, "1-2-3"}},
		"regexReplace": {
			{`regexReplace("a1b22", "[0-9]+", "#")`, "a#b#"}, {`regexReplace("abc", "", "-")`, "-a-b-c-"}, {`regexReplace("x=1", "(?<k>\\w)=(\\w)", "${k}:$2:\\1:$$:$9:$x")`, "x:1:x:$::$x"}, {`regexReplace("ab", "(a)(b)", "$2$1$10")`, "baa0"}, {`regexReplace("abc", "(?i)B", "x")`, "axc"}, {`regexReplace("abc", "z", "x")`, "abc"},
			{`regexReplace("abc", "(", "x")`, none}, {`regexReplace("abc", "a(?=b)", "x")`, none}, {`regexReplace(absent, "a", "x")`, none}, {`regexReplace("a", absent, "x")`, none}, {`regexReplace("a", "a", absent)`, none}, {`regexReplace("a", "a", "$")`, "$"}, {`regexReplace("", "a*", "x")`, "x"},
		},
		"strcontains":  {{`strcontains("abc", "b")`, "1"}, {`strcontains("abc", "B")`, "0"}, {`strcontains("ÄPFEL", "äpfel", true)`, "1"}, {`strcontains("abc", "B", absent)`, "0"}, {`strcontains("abc", "")`, "1"}, {`strcontains(absent, "b")`, "0"}, {`strcontains("abc", absent)`, "0"}, {`strcontains(12345, 234)`, "1"}, {`strcontains(jsonParse("[1]"), "1")`, "0"}},
		"startsWith":   {{`startsWith("abc", "b")`, "0"}, {`startsWith("abc", "")`, "1"}, {`startsWith(absent, "")`, "0"}, {`startsWith("abc", absent)`, "0"}, {`startsWith(200, 2)`, "1"}},
		"endsWith":     {{`endsWith("abc", "b")`, "0"}, {`endsWith("abc", "")`, "1"}, {`endsWith(absent, "")`, "0"}, {`endsWith("日本", "本")`, "1"}},
		"urlencode":    {{`urlencode("")`, ""}, {`urlencode("ü/?")`, "%C3%BC%2F%3F"}, {`urlencode(absent)`, none}},
		"urldecode":    {{`urldecode("%C3%BC")`, "ü"}, {`urldecode("%zz")`, none}, {`urldecode("%ff")`, none}, {`urldecode("")`, ""}, {`urldecode(absent)`, none}},
		"base64encode": {{`base64encode("")`, ""}, {`base64encode("ü")`, "w7w="}, {`base64encode(absent)`, none}},
		"base64decode": {{`base64decode("w7w=")`, "ü"}, {`base64decode("w7w")`, "ü"}, {`base64decode("/w==")`, none}, {`base64decode("*")`, none}, {`base64decode("")`, ""}, {`base64decode(absent)`, none}},
		"split":        {{`split("a", ",")`, `["a"]`}, {`split("", ",")`, `[""]`}, {`split("a,,b", ",")`, `["a","","b"]`}, {`split("äb", "")`, `["ä","b"]`}, {`split("a\"\n\u0001|\\", "|")`, `["a\"\n\u0001","\\"]`}, {`jsonArraySize(split("a b c", " "))`, "3"}, {`split(absent, ",")`, none}, {`split("a", absent)`, none}},
		"hexToAscii":   {{`hexToAscii("0x4869")`, "Hi"}, {`hexToAscii("486")`, none}, {`hexToAscii("zz")`, none}, {`hexToAscii("ff")`, none}, {`hexToAscii("")`, none}, {`hexToAscii(48)`, "H"}, {`hexToAscii(absent)`, none}},
		"hexToDec":     {{`hexToDec("FF")`, "255"}, {`hexToDec("ffffffffffffffff")`, "18446744073709551615"}, {`hexToDec("10000000000000000")`, none}, {`hexToDec("-0x8000000000000000")`, "-9223372036854775808"}, {`hexToDec("-0x8000000000000001")`, none}, {`hexToDec("")`, none}, {`hexToDec("0x")`, none}, {`hexToDec("xyz")`, none}, {`hexToDec(absent)`, none}, {`hexToDec("+f")`, none}},
		"decToHex":     {{`decToHex(0)`, "0x0"}, {`decToHex("255")`, "0xff"}, {`decToHex(9223372036854775807)`, "0x7fffffffffffffff"}, {`decToHex("-9223372036854775808")`, "-0x8000000000000000"}, {`decToHex("1e300")`, none}, {`decToHex("x")`, none}, {`decToHex(absent)`, none}},

		"operators": {
			{`1 / 0`, none}, {`5 % 0`, none}, {`-7 % 3`, "-1"}, {`7.5 % 2`, "1.5"}, {`"7" / "2"`, "3.5"}, {`"a" + 1`, none}, {`absent + 1`, none}, {`jsonParse("[1]") + 1`, none}, {`9223372036854775807 + 1`, "9223372036854776000"}, {`-9223372036854775808 - 1`, "-9223372036854776000"},
			{`3037000500 * 3037000500`, "9223372037000250000"}, {`9007199254740993 * 1`, "9007199254740993"}, {`9007199254740993 / 1`, "9007199254740993"}, {`toNumber("1e308") * 10`, none}, {`toNumber("-1e308") * 10`, none}, {`3 ^ 40`, "12157665459056929000"}, {`7 ^ 21`, "558545864083284007"}, {`2 ^ -1`, "0.5"}, {`0 ^ 0`, "1"}, {`-1 ^ 0.5`, none}, {`0 ^ -1`, none}, {`-3 ^ 39`, "-4052555153018976267"},
			{`toLong("-9223372036854775808") / -1`, "9223372036854776000"}, {`toLong("-9223372036854775808") % -1`, "0"}, {`toLong("-9223372036854775808") * -1`, "9223372036854776000"}, {`0.1 + 0.2`, "0.30000000000000004"}, {`@timestamp - 1000`, "1795257401123"},
		},
	} {
		t.Run(function, func(t *testing.T) {
			for _, c := range cases {
				x := expression{t: t, rest: c[0], env: testEnv()}
				v := x.all()
				got := v.String()
				if v.IsNull() {
					got = none
				}
				if got != c[1] {
					t.Errorf("%s is %q, not %q", c[0], got, c[1])
				}
			}
		})
	}
}

func TestEveryFunctionHasEdges(t *testing.T) {
	t.Parallel()
	env := testEnv()
	wrong := []Value{{}, String("\xff"), Int(-1), Int(math.MinInt64), FromJSON([]byte(`[1]`)), Time(math.MaxInt64), String(""), String("x"), Number(1e300), Bool(true), FromJSON([]byte(`{"a":1}`)), String(strings.Repeat("9", 400))}
	for _, name := range FunctionNames() {
		f, ok := LookupFunction(strings.ToUpper(name))
		if !ok {
			t.Fatalf("%s is not found in upper case", name)
		}
		most := f.Max
		if most < 0 || most > 3 {
			most = max(f.Min, 3)
		}
		// Every combination of values that are wrong for most functions: none panics.
		for n := f.Min; n <= most; n++ {
			args := make([]Value, n)
			wrong := wrong
			if n > 2 {
				wrong = wrong[:6]
			}
			total := 1
			for range n {
				total *= len(wrong)
			}
			for i := range total {
				for j := range args {
					args[j] = wrong[i%len(wrong)]
					i /= len(wrong)
				}
				_ = f.Call(env, args).String()
			}
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	call := func(name string, args ...Value) Value {
		f, _ := LookupFunction(name)
		return f.Call(testEnv(), args)
	}
	long := String(strings.Repeat("a", 1<<20))
	for name, v := range map[string]Value{
		"concat":       call("concat", long, long, long, long, long),
		"replace":      call("replace", long, String("a"), String("0123456789")),
		"regexReplace": call("regexReplace", long, String("a"), String("0123456789")),
		"urlencode":    call("urlencode", String(strings.Repeat("%", 2<<20))),
		"split":        call("split", String(strings.Repeat("\n", 1<<20)), String("")),
	} {
		if !v.IsNull() {
			t.Errorf("%s gives %d bytes", name, len(v.String()))
		}
	}
	x := long
	for range 40 { // as a query can nest it
		x = call("concat", x, x)
	}
	if !x.IsNull() {
		t.Errorf("nested concat gives %d bytes", len(x.String()))
	}
}

func TestRegexReplaceKeepsFewExpressions(t *testing.T) {
	t.Parallel()
	env := testEnv()
	f, _ := LookupFunction("regexReplace")
	for i := range 1000 {
		f.Call(env, []Value{String("abc"), String("a" + strings.Repeat("b", i%300)), String("x")})
	}
	if n := len(env.regexes); n == 0 || n > maxRegexes {
		t.Errorf("%d expressions are kept", n)
	}
}

func FuzzFunctions(f *testing.F) {
	for i, name := range FunctionNames() {
		f.Add(uint8(i), "5"+name, "02026-11-21T10:36:42Z", "0yyyy-MM-dd'T'HH:mm:ssX")
	}
	f.Add(uint8(0), "0%Y", "0[[yy]'", "0$1${x}\\2")
	names := FunctionNames()
	f.Fuzz(func(t *testing.T, i uint8, x, y, z string) {
		fn, _ := LookupFunction(names[int(i)%len(names)])
		args := []Value{fuzzed(x), fuzzed(y), fuzzed(z), fuzzed(x), fuzzed(y)}
		most := min(len(args), fn.Max)
		if fn.Max < 0 {
			most = len(args)
		}
		env := testEnv()
		for n := fn.Min; n <= most; n++ {
			for first := range 2 { // the arguments in another order, too
				v := fn.Call(env, args[:n])
				if again := fn.Call(env, args[:n]); again != v {
					t.Fatalf("%s%q is %q, and then %q", fn.Name, args[:n], v, again)
				}
				if v.Bytes() > maxText+1024 {
					t.Fatalf("%s gives %d bytes", fn.Name, v.Bytes())
				}
				if s, ok := text(v); v.Kind() == NumberKind && (!ok || !decimal(s, true)) {
					t.Fatalf("%s%q is the number %q", fn.Name, args[:n], v)
				}
				if k := v.Kind(); (k == ListKind || k == MapKind) && FromJSON([]byte(v.String())).Kind() != k {
					t.Fatalf("%s%q is %q, which is no JSON", fn.Name, args[:n], v)
				}
				args[first], args[first+1] = args[first+1], args[first]
			}
		}
	})
}
