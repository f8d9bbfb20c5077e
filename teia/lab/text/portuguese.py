"""Portuguese, as a world writes it. The rules for entries are in `words`."""

from __future__ import annotations

from teia.lab.text.words import Language, TopicWords, commas, lines

_PORTUGUESE_TOPICS = {
    "town": TopicWords(
        commas(
            "A praça, O mercado, A ponte velha, O coreto, A junta, A biblioteca, O teatro, A feira, O jardim, A"
            " escola, A estação, O orçamento, A romaria, O chafariz, A rua direita, O cais"
        ),
        commas(
            "a câmara municipal, o presidente da junta, a assembleia, o bairro antigo, a comissão de festas, a"
            " escola básica, o mercado coberto, a associação de moradores, o plano de obras, a banda filarmónica"
        ),
        lines(
            """aprovou o orçamento para o próximo ano
            adiou a obra da ponte velha
            abriu as portas a quem quis entrar
            prometeu arranjar a rua até ao verão
            recebeu mais de duzentas sugestões
            votou contra a mudança do mercado
            plantou cinquenta árvores no jardim
            pediu contas à empresa das águas
            anunciou três dias de festa na praça
            juntou vizinhos que não se falavam
            recuperou o coreto e o chafariz
            discutiu o preço dos transportes
            ganhou um prémio pela limpeza das ruas
            ficou sem resposta do governo"""
        ),
    ),
    "science": TopicWords(
        commas(
            "O telescópio, A célula, O vulcão, A maré, O fóssil, A bactéria, O cometa, A floresta, O glaciar, O"
            " íman, A abelha, O genoma, A corrente, O mineral, A nuvem, O neurónio"
        ),
        commas(
            "a equipa de biólogos, o observatório, a investigadora, o laboratório, uma amostra de rocha, o"
            " estudo, a sonda, o modelo de clima, a colónia de bactérias, o microscópio"
        ),
        lines(
            """mediu a temperatura do oceano a mil metros
            encontrou vestígios de água no cometa
            descreveu uma espécie de abelha nunca vista
            repetiu a experiência com outro método
            confirmou a idade do fóssil
            explicou a origem da corrente fria
            publicou os dados em acesso livre
            observou a célula durante três semanas
            corrigiu um erro de cálculo antigo
            comparou o genoma de duas populações
            previu a próxima erupção do vulcão
            registou a passagem de partículas raras
            pôs em dúvida a hipótese mais aceite
            calculou a massa da nuvem de poeira"""
        ),
    ),
    "sport": TopicWords(
        commas(
            "O clube, A final, O guarda-redes, A maratona, O treinador, A regata, O campeonato, A equipa, O"
            " pavilhão, O ciclista, A atleta, O estádio, A taça, O remate, A época, O balneário"
        ),
        commas(
            "o clube da terra, a guarda-redes, o treinador, a equipa de juniores, o capitão, a federação, o"
            " ciclista, a nadadora, o árbitro, a claque"
        ),
        lines(
            """marcou dois golos na segunda parte
            perdeu a final nas grandes penalidades
            renovou o contrato por mais uma época
            correu a maratona em menos de três horas
            venceu a etapa da montanha
            falhou o remate decisivo
            trocou de treinador a meio do campeonato
            bateu o recorde nacional de juniores
            celebrou a subida de divisão
            treinou à chuva com a bancada vazia
            empatou em casa com o último classificado
            levantou a taça perante os adeptos
            recuperou da lesão no joelho
            protestou contra a marcação da falta"""
        ),
    ),
    "food": TopicWords(
        commas(
            "O pão de milho, A sopa de feijão, O queijo curado, A caldeirada, O azeite novo, A compota, O arroz"
            " doce, A marmelada, O bacalhau, A broa, O vinho tinto, A horta, O forno a lenha, A castanha, O"
            " caldo verde, O mel"
        ),
        commas(
            "a cozinheira, o padeiro, a receita da avó, o restaurante, o forno a lenha, a massa, o caldo, a"
            " quinta, o queijeiro, a mesa do fundo"
        ),
        lines(
            """leva duas colheres de azeite e um dente de alho
            descansa uma noite antes de ir ao lume
            não tem pressa e pede atenção ao lume
            junta a farinha de milho à água morna
            põe na mesa o pão, a sopa e as azeitonas
            não conta a ninguém o segredo do tempero
            troca o açúcar por mel da serra
            corta o queijo e o pão em fatias muito finas
            coze o bacalhau com batatas e ovos
            põe o sal só depois de provar o feijão
            escolhe tomates que já estão bem vermelhos
            enche o salão de cheiro a limão e canela
            tempera a carne com louro e vinho
            deixa a castanha no carvão até à refeição"""
        ),
    ),
    "travel": TopicWords(
        commas(
            "O caminho, A ilha, O comboio, A praia, O miradouro, A aldeia, O castelo, A estalagem, O vale, A"
            " serra, O farol, A travessia, O mosteiro, A lagoa, O trilho, A fronteira"
        ),
        commas(
            "a viajante, o guia, o comboio da manhã, a estalagem, o trilho, o barco, a aldeia de xisto, o"
            " miradouro, a bagagem, o mapa"
        ),
        lines(
            """segue o rio até à lagoa
            passa pela aldeia sem parar
            chega ao castelo antes do pôr do sol
            oferece quarto e ceia por pouco dinheiro
            atravessa a fronteira por um caminho de pedra
            mostra a ilha inteira num só dia
            sobe ao farol por duzentos degraus
            perde a ligação e espera três horas
            desce o vale entre vinhas e oliveiras
            leva água, pão e um casaco
            descobre uma praia que não vem nos guias
            recomenda partir ao nascer do dia
            dorme no mosteiro com os peregrinos
            regressa pela estrada da costa"""
        ),
    ),
    "computing": TopicWords(
        commas(
            "O programa, A rede, O servidor, A base de dados, O ficheiro, O algoritmo, A palavra-passe, O"
            " protocolo, O disco, A fila, O robô, A cópia, O índice, O erro, A versão, O teclado"
        ),
        commas(
            "o programa, a base de dados, o servidor, a equipa de sistemas, o protocolo, a nova versão, o"
            " algoritmo, a rede local, o robô de recolha, a programadora"
        ),
        lines(
            """lê o ficheiro uma linha de cada vez
            guarda uma cópia em dois discos
            responde em menos de vinte milésimos
            reparte a fila por quatro processos
            apaga as versões com mais de um ano
            ordena os endereços por importância
            recusa palavras-passe com menos de doze letras
            espera um minuto entre dois pedidos
            corrige o erro descoberto na véspera
            mede o tempo de cada operação
            perde a ligação e recomeça onde parou
            ocupa metade da memória de antes
            visita cada servidor uma vez por dia
            traduz o nome da máquina num número"""
        ),
    ),
}

PORTUGUESE = Language(
    code="pt",
    topics=_PORTUGUESE_TOPICS,
    circumstances=commas(
        "na última semana, desde o início do ano, ao fim da manhã, apesar da chuva e do vento, com a ajuda dos"
        " vizinhos, sem grande confusão, pela terceira vez, à frente de uma multidão, antes do inverno,"
        " em menos de meia hora, com muita atenção, depois de uma longa reunião, como manda a tradição, a pedido de"
        " \x02, não muito longe de \x01, na região de \x01"
    ),
    frames=lines(
        """{subject} {deed} {when}.
        {when}, {subject} {deed}.
        Na opinião de \x02, {subject} {deed}.
        Também em \x01 {subject} {deed} {when}.
        {subject} {deed}, mas {other} também {deed2}.
        {subject} {deed} e {deed2}.
        Os mais velhos dizem que {subject} {deed} {when}.
        Não é a primeira vez que {subject} {deed}.
        Sempre que {subject} {deed}, {other} {deed2}.
        São muitos os que, como \x02, já sabiam que {subject} {deed}."""
    ),
    twists=lines(
        """de perto
        em números
        passo a passo
        por dentro
        de outros tempos
        sem segredos
        e os seus mistérios
        em debate
        à prova
        de volta
        como nunca
        ao vivo
        em três actos
        e o futuro
        fora de horas
        contra o tempo"""
    ),
    tail_words=("em", "perto de", "a caminho de", "à volta de"),
    subheadings=lines(
        """O que mudou
        Como tudo começou
        As próximas semanas
        Perguntas e respostas
        O que dizem os vizinhos
        Um pouco de história
        Contas feitas
        Para saber mais
        O outro lado
        Antes e depois
        Quem ganha e quem perde
        Em poucas palavras"""
    ),
    proverbs=lines(
        """Água mole em pedra dura tanto bate até que fura.
        Devagar se vai ao longe.
        Grão a grão enche a galinha o papo.
        Quem espera sempre alcança.
        De pequenino se torce o pepino.
        Mais vale tarde do que nunca.
        Quem conta um conto acrescenta um ponto.
        Deus ajuda quem cedo madruga.
        Nem tudo o que luz é ouro.
        Casa roubada, trancas à porta.
        A pressa é inimiga da perfeição.
        Em Abril, águas mil.
        Cada cabeça, sua sentença.
        O saber não ocupa lugar.
        Depois da tempestade vem a bonança.
        Palavra dita não volta atrás."""
    ),
    advertisements=lines(
        """Azeites da Quinta Nova: prove e compare.
        Relojoaria Central, tudo a horas.
        Aulas de piano para todas as idades.
        Sapatos feitos à mão, entregues em casa.
        Seguros sem letras pequenas.
        Bicicletas usadas como novas.
        Livros antigos, compra e venda.
        Óculos prontos numa hora.
        Pneus e revisões ao sábado.
        Férias no campo com tudo incluído.
        Flores frescas todos os dias.
        Aprenda inglês em seis meses."""
    ),
    place_starts=commas(
        "Val, Pena, Monte, Fonte, Ribeira, Alde, Cast, Serra, Outeir, Moim, Lam, Carval, Sobr, Pinh, Azinh,"
        " Torr, Vila, Quint, Barr, Fig, Oliv, Freix, Salgu, Mour, Cab, Porto"
    ),
    place_ends=commas(
        "mourisco, corva, rei, bela, longa, inho, elã, eiró, ãozinho, osa, redonda, edo, ical, amosa, ões, ança,"
        " ada, al, isca, ouro, ende, ães, ilhas, ém"
    ),
    first_names=commas("Ana, Rui, Inês, João, Marta, Tomás, Beatriz, Luís, Catarina, Nuno, Sofia, Artur, Helena, Zé"),
    surname_starts=commas("Al, Bar, Car, Fer, Gou, Lou, Mar, Nor, Pei, Quei, Ra, Sal, Tei, Var, Xa, Ze"),
    surname_ends=commas(
        "veira, bosa, valho, reira, veia, renço, tinho, onha, xoto, rós, malho, gado, xeira, gas, vier"
    ),
    site_kinds=(
        ("gazeta", "Gazeta"),
        ("jornal", "Jornal"),
        ("folha", "Folha"),
        ("portal", "Portal"),
        ("casa", "Casa"),
        ("clube", "Clube"),
        ("museu", "Museu"),
        ("radio", "Rádio"),
        ("escola", "Escola"),
        ("correio", "Correio"),
        ("feira", "Feira"),
        ("livraria", "Livraria"),
        ("amigos", "Amigos"),
        ("turismo", "Turismo"),
        ("forum", "Fórum"),
        ("revista", "Revista"),
    ),
    subdomains=("blog", "loja", "arquivo", "forum", "noticias", "fotos", "m"),
    sections=(
        ("noticias", "Notícias"),
        ("cultura", "Cultura"),
        ("opiniao", "Opinião"),
        ("arquivo", "Arquivo"),
        ("dossies", "Dossiês"),
        ("cronicas", "Crónicas"),
    ),
    phrases={
        "of": "de",
        "home": "Início",
        "by": "Por",
        "on": "em",
        "see": "Ver também",
        "related": "Leia também",
        "inside": "Nesta secção",
        "elsewhere": "Noutros sítios",
        "partners": "Sítios amigos",
        "advertisement": "Publicidade",
        "visits": "Visitas",
        "rights": "Todos os direitos reservados",
        "calendar": "Agenda",
        "photo": "Fotografia de \x02",
        "page": "ver",
        "documents": "documentos",
        "files": "ficheiros",
        "private": "reservado",
        "images": "imagens",
        "agenda": "agenda",
        "mirror": "espelho",
        "not_found": "Página não encontrada",
        "error": "Não foi possível responder ao pedido",
        "moved": "Esta página mudou de lugar",
        "choices": "Escolha uma destas páginas",
    },
    months=commas(
        "janeiro, fevereiro, março, abril, maio, junho, julho, agosto, setembro, outubro, novembro, dezembro"
    ),
)
