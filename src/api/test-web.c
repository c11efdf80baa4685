/* What a browser says about files of the web app, and finding them. */
#include "api/web-asset.h"
#include "base/test.h"

const struct web_asset web_assets[] = {
        {"/assets/a.css", "text/css", "1", 0, 1, 1, 0},
        {"/assets/b.js", "text/javascript", "2", 1, 1, 2, 1},
        {"/index.html", "text/html", "3", 3, 1, 4, 0},
};
const size_t web_asset_count = sizeof web_assets / sizeof web_assets[0];
const uint8_t web_bytes[] = {1, 2, 3, 4};

static void test_find(void) {
        for (size_t i = 0; i < web_asset_count; i++)
                CHECK(web_asset_find(web_assets[i].path) == &web_assets[i]);
        static const char *const none[] = {
                "",           "/",    "/assets",     "/assets/", "/assets/a", "/assets/a.css/", "/assets/../index.html",
                "/index.htm", "/zzz", "assets/a.css"};
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
                CHECK(!web_asset_find(none[i]));
}

static void test_gzip(void) {
        static const char *const yes[] = {"gzip",
                                          "GZIP",
                                          "x-gzip",
                                          "gzip, deflate, br",
                                          "deflate,gzip",
                                          "br;q=1.0, gzip;q=0.8",
                                          "*",
                                          "identity, *;q=0.1",
                                          "gzip;q=0.001",
                                          "gzip ;q=1"};
        static const char *const no[] = {"",
                                         ",",
                                         ";",
                                         "identity",
                                         "br",
                                         "gzipped",
                                         "xgzip",
                                         "gzip;q=0",
                                         "gzip; q=0.000",
                                         "gzip;q=0, *",
                                         "*;q=0",
                                         "deflate;q=1;gzip",
                                         "gzip;q=0.0 , br"};

        for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
                CHECK(web_takes_gzip(yes[i]));
        for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
                CHECK(!web_takes_gzip(no[i]));
        CHECK(!web_takes_gzip(NULL));
}

static void test_tags(void) {
        CHECK(web_has_tag("\"abc\"", "abc"));
        CHECK(web_has_tag("\"x\", \"abc\"", "abc"));
        CHECK(web_has_tag("W/\"abc\"", "abc"));
        CHECK(web_has_tag("*", "abc"));
        CHECK(!web_has_tag(NULL, "abc"));
        CHECK(!web_has_tag("", "abc"));
        CHECK(!web_has_tag("abc", "abc"));
        CHECK(!web_has_tag("\"abcd\"", "abc"));
        CHECK(!web_has_tag("\"ab\"", "abc"));
        CHECK(!web_has_tag("\"abc", "abc"));
        CHECK(!web_has_tag("\"abc-gzip\"", "abc"));
        CHECK(!web_has_tag("W/", "abc"));
}

TEST_MAIN(TEST(test_find), TEST(test_gzip), TEST(test_tags))
