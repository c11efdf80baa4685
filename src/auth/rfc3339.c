/* Dates by arithmetic on days of the Gregorian calendar: no libc time functions, which read files and settings. */
#include "auth/rfc3339.h"

enum { DAY_S = 86400, FRACTION_MAX = 9, TEXT_MAX = 20 + FRACTION_MAX + 6 };

static bool is_leap(unsigned year) {
        return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static unsigned days_in(unsigned year, unsigned month) {
        static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

        return days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
}

/* Days from 1970-01-01 to the first of January. */
static unsigned days_to_year(unsigned year) {
        unsigned before = year - 1;

        return 365 * (year - 1970) + (before / 4 - 1969 / 4) - (before / 100 - 1969 / 100) +
               (before / 400 - 1969 / 400);
}

static unsigned days_to(unsigned year, unsigned month, unsigned day) {
        unsigned days = days_to_year(year);

        for (unsigned m = 1; m < month; m++)
                days += days_in(year, m);
        return days + day - 1;
}

/* A number of exactly n digits. */
static bool number(const char *s, size_t n, unsigned *ret) {
        unsigned v = 0;

        for (size_t i = 0; i < n; i++) {
                if (s[i] < '0' || s[i] > '9')
                        return false;
                v = 10 * v + (unsigned)(s[i] - '0');
        }
        *ret = v;
        return true;
}

/* "Z", or "+02:00": minutes ahead of UTC. */
static bool parse_offset(const char *s, size_t size, int *ret) {
        unsigned hours, minutes;

        if (size == 1 && s[0] == 'Z') {
                *ret = 0;
                return true;
        }
        if (size != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' || !number(s + 1, 2, &hours) ||
            !number(s + 4, 2, &minutes) || hours > 23 || minutes > 59)
                return false;
        *ret = (int)(60 * hours + minutes) * (s[0] == '-' ? -1 : 1);
        return true;
}

/* ".5" as 500; digits after the third do not count. Returns how many bytes it is, 0 if there is none, -1 if wrong. */
static int parse_fraction(const char *s, size_t size, unsigned *ret_ms) {
        size_t n = 1;

        *ret_ms = 0;
        if (size == 0 || s[0] != '.')
                return 0;
        for (unsigned weight = 100; n < size && s[n] >= '0' && s[n] <= '9'; n++, weight /= 10)
                *ret_ms += weight * (unsigned)(s[n] - '0');
        return n == 1 || n - 1 > FRACTION_MAX ? -1 : (int)n;
}

/* The year of a day since 1970. */
static unsigned year_of(uint64_t days) {
        unsigned year = 1970 + (unsigned)(days / 366); /* never too late */

        while (days_to_year(year + 1) <= days)
                year++;
        return year;
}

/* The first second of January or of July, UTC: leap seconds are the ones before. */
static bool follows_leap_second(uint64_t seconds) {
        uint64_t days = seconds / DAY_S;
        unsigned year = year_of(days);

        return seconds % DAY_S == 0 && (days == days_to_year(year) || days == days_to(year, 7, 1));
}

bool rfc3339_parse(const char *text, size_t size, uint64_t *ret_ms) {
        unsigned year, month, day, hour, minute, second, ms;
        int offset, n;

        if (size < 20 || size > TEXT_MAX || !number(text, 4, &year) || text[4] != '-' || !number(text + 5, 2, &month) ||
            text[7] != '-' || !number(text + 8, 2, &day) || text[10] != 'T' || !number(text + 11, 2, &hour) ||
            text[13] != ':' || !number(text + 14, 2, &minute) || text[16] != ':' || !number(text + 17, 2, &second))
                return false;
        n = parse_fraction(text + 19, size - 19, &ms);
        if (n < 0 || !parse_offset(text + 19 + n, size - 19 - (size_t)n, &offset))
                return false;
        if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 ||
            minute > 59 || second > 60)
                return false;

        int64_t seconds = (int64_t)days_to(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset * 60;
        if (seconds < 0 || seconds >= (int64_t)days_to_year(10000) * DAY_S)
                return false;
        if (second == 60 && !follows_leap_second((uint64_t)seconds))
                return false;
        *ret_ms = (uint64_t)seconds * 1000 + ms;
        return true;
}

bool rfc3339_format(uint64_t ms, char ret[RFC3339_TEXT]) {
        uint64_t seconds = ms / 1000, days = seconds / DAY_S;
        unsigned rest = (unsigned)(seconds % DAY_S), month = 1;

        if (days >= days_to_year(10000))
                return false;
        unsigned year = year_of(days), day = (unsigned)days - days_to_year(year);
        while (day >= days_in(year, month))
                day -= days_in(year, month++);
        (void)snprintf(ret, RFC3339_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year % 10000, month % 100,
                       (day + 1) % 100, rest / 3600 % 100, rest / 60 % 60, rest % 60, (unsigned)(ms % 1000));
        return true;
}
