"""The functions that run in a page.

They run in an isolated world: the page's scripts share the document with it but none of its names, so they can neither
see nor replace these functions. What these return is text of a hostile page all the same.
"""

from __future__ import annotations

BEFORE_SCRIPTS = """
for (const name of ['WebSocket', 'WebSocketStream', 'WebTransport', 'RTCPeerConnection', 'webkitRTCPeerConnection',
                    'EventSource', 'SharedWorker'])
  try { Object.defineProperty(window, name, {value: undefined}); } catch (e) {}
try { Object.defineProperty(Navigator.prototype, 'serviceWorker', {value: undefined}); } catch (e) {}
try { Object.defineProperty(Navigator.prototype, 'sendBeacon', {value: () => false}); } catch (e) {}
for (const name of ['alert', 'print']) try { window[name] = () => undefined; } catch (e) {}
"""
"""Runs in the page's own world before its scripts: ways to the network that cannot be answered do not exist there."""

PREPARE = """
(() => {
  const lines = () => new Set((document.body ? document.body.innerText : '').split('\\n').map(s => s.trim()));
  const size = () => document.getElementsByTagName('*').length + lines().size;
  const clicked = new WeakMap();
  const kept = new Set(), keptLinks = new Map();
  let before = null, last = null;

  const hrefs = () => new Map([...document.links].slice(0, 5000).map(a => [a.href, a.textContent.trim()]));

  const scroll = () => {
    const root = document.scrollingElement || document.documentElement;
    root.scrollTop = root.scrollHeight;
    window.scrollTo(0, root.scrollHeight);
    let boxes = 0;
    for (const each of document.querySelectorAll('div,main,section,ul,ol'))
      if (each.clientHeight > 100 && each.scrollHeight > each.clientHeight + 100) {
        each.scrollTop = each.scrollHeight;
        if (++boxes >= 20) break;
      }
    window.dispatchEvent(new Event('scroll'));
  };

  const refused = new RegExp('delete|remove|log ?(in|out)|sign|buy|pay|print|share|subscri|cookie|accept|agree|' +
    'cancel|close|download|send|submit|excluir|entrar|sair|comprar|enviar|aceitar|fechar|cancelar', 'i');
  const wanted = new RegExp('more|load|show|expand|next|reveal|detail|mais|mostrar|carregar|ver |m[aá]s|plus|mehr|' +
    'weiter', 'i');
  const choose = () => {
    const all = document.querySelectorAll('button,summary,[role=button],[role=tab],[aria-expanded=false],[onclick],' +
      'input[type=button],a[href^="#"],a[href^="javascript:"],a:not([href])');
    let found = null, rank = 9;
    for (const each of all) {
      const name = (each.innerText || each.value || each.getAttribute('aria-label') || '').trim();
      const times = clicked.get(each) || 0;
      if (times < 0 || times >= 10 || each.disabled || each.isContentEditable || name.length > 80) continue;
      if (each.form && each.type === 'submit') continue;
      if (each.matches('body,html,form') || refused.test(name)) continue;
      if (each.matches('a[href^="#"]') && !each.matches('[role],[aria-expanded],[onclick],[data-toggle]')
          && !wanted.test(name)) continue;
      if (!each.checkVisibility || !each.checkVisibility()) continue;
      const own = times ? 2 : wanted.test(name) ? 0 : 1;
      if (own < rank) { found = each; rank = own; }
    }
    return found;
  };

  const compare = () => {
    if (before === null) return;
    const now = lines(), links = hrefs();
    for (const each of before.lines) if (each && !now.has(each) && kept.size < 2000) kept.add(each);
    for (const [href, text] of before.links)
      if (!links.has(href) && keptLinks.size < 2000) keptLinks.set(href, text);
    if (last && size() <= before.size) clicked.set(last, -1);
    before = null;
  };

  const click = () => {
    compare();
    const each = choose();
    if (!each) return false;
    before = {lines: lines(), links: hrefs(), size: size()};
    last = each;
    clicked.set(each, (clicked.get(each) || 0) + 1);
    each.click();
    return true;
  };

  const has_changed = () => before !== null && size() !== before.size;

  const copyOf = node => {
    const copy = node.cloneNode(false);
    if (node.shadowRoot) {
      const inside = document.createElement('div');
      for (const child of node.shadowRoot.childNodes) inside.append(copyOf(child));
      copy.append(inside);
    }
    for (const child of node.childNodes) {
      if (child.nodeName === 'NOSCRIPT') continue;
      if (child.nodeName === 'SCRIPT' && /^$|script|module|babel/i.test(child.type || '')) continue;
      copy.append(child.nodeName === 'TEMPLATE' ? child.cloneNode(true) : copyOf(child));
    }
    return copy;
  };

  const read = (url, limit) => {
    const root = document.documentElement;
    if (!root) return '';
    let copy;
    try {
      compare();
      copy = copyOf(root);
    } catch (e) {  // nested too deeply
      return '<!DOCTYPE html>' + root.outerHTML.slice(0, limit);
    }
    const body = copy.querySelector('body');
    if (document.baseURI !== url && !copy.querySelector('base')) {
      const base = document.createElement('base');
      base.href = document.baseURI;
      (copy.querySelector('head') || copy).prepend(base);
    }
    if (body && (kept.size || keptLinks.size)) {
      const section = document.createElement('section');
      const seen = lines();
      for (const each of kept) if (!seen.has(each)) {
        const line = document.createElement('p');
        line.textContent = each;
        section.append(line);
      }
      for (const [href, text] of keptLinks) {
        const link = document.createElement('a');
        link.href = href;
        link.textContent = text;
        section.append(link);
      }
      body.append(section);
    }
    return '<!DOCTYPE html>' + copy.outerHTML.slice(0, limit);
  };
  const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
  globalThis.teia = {scroll, size, click, has_changed, read, drawn};
})()
"""
"""Makes the functions that the renderer calls: `scroll`, `size`, `drawn`, `click`, `has_changed`, `read`.

`click` chooses an element that is neither a link nor a form's: first those whose names say that they show more. Text
and links that a click replaced are put at the end of the document by `read`, which leaves out scripts and what browsers
without scripts would show, and takes the contents of open shadow roots into the document.
"""
