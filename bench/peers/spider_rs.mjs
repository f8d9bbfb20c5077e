// The spider-rs side of the comparison; runs in its own environment: `node spider_rs.mjs URL MODULES`.
// Whether a URL is a page is left to spider-rs, which skips what it takes for a file by its ending.
import { createRequire } from "node:module";

const [seed, modules] = process.argv.slice(2);
const { Website } = createRequire(`${modules}/`)("@spider-rs/spider-rs");
const website = new Website(seed).withRespectRobotsTxt(true).build();
await website.crawl();
console.log(website.getLinks().length);
